// SPDX-License-Identifier: Apache-2.0
// The (max, sum) monoid: its laws to the bit and to the rounding.
#include <core/monoid.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <random>
#include <vector>

using softfold::max_sum;
using softfold::core::max_sum_monoid;

namespace {

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();
template <class T>
constexpr T not_a_number = std::numeric_limits<T>::quiet_NaN();
template <class T>
constexpr T unit_roundoff = std::numeric_limits<T>::epsilon() / 2;

/// The sum a state stands for, relative to another maximum, in wider arithmetic.
template <class T>
long double sum_at(max_sum<T> a, T max) {
  return a.sum == 0 ? 0.0L
                    : static_cast<long double>(a.sum) *
                          std::exp(static_cast<long double>(a.max) - static_cast<long double>(max));
}

/// One combine rounds two differences, two exponentials, two products and a sum. A difference
/// of d rounds by d u, which weighs exp(-d) in the sum: less than u / e.
template <class T>
constexpr T combine_bound = 6 * unit_roundoff<T>;

template <class T>
std::vector<max_sum<T>> sample_states(unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, 20);
  std::uniform_real_distribution<double> sum(1, 1000);
  std::vector<max_sum<T>> states;
  for (int i = 0; i < 40; ++i) {
    states.push_back({static_cast<T>(normal(generator)), static_cast<T>(sum(generator))});
  }
  states.push_back({});
  states.push_back({T{0}, T{1}});
  states.push_back({T{-0.0}, T{1}});
  states.push_back({std::numeric_limits<T>::max(), T{1}});
  states.push_back({std::numeric_limits<T>::lowest(), T{3}});
  states.push_back({std::numeric_limits<T>::denorm_min(), T{1}});
  return states;
}

template <class T>
bool close(max_sum<T> a, max_sum<T> b, long double bound) {
  if (a.max != b.max) {
    return false;
  }
  const auto difference = static_cast<long double>(a.sum) - static_cast<long double>(b.sum);
  return std::abs(difference) <= bound * static_cast<long double>(b.sum);
}

}  // namespace

TEST_SUITE_BEGIN("monoid");

static_assert(softfold::core::monoid<max_sum_monoid<float>>);
static_assert(softfold::core::monoid<max_sum_monoid<double>>);
static_assert(!softfold::core::monoid<int>);

TEST_CASE_TEMPLATE("the default state is the identity", T, float, double) {
  using M = max_sum_monoid<T>;
  CHECK(M::identity() == max_sum<T>{});
  CHECK(M::identity().max == -infinity<T>);
  CHECK(M::identity().sum == 0);
  CHECK(M::combine(M::identity(), M::identity()) == M::identity());
  for (const auto& a : sample_states<T>(1)) {
    CAPTURE(a.max);
    CAPTURE(a.sum);
    CHECK(M::combine(a, M::identity()) == a);
    CHECK(M::combine(M::identity(), a) == a);
  }
}

TEST_CASE_TEMPLATE("an element's state", T, float, double) {
  using M = max_sum_monoid<T>;
  CHECK(M::lift(T{3}) == max_sum<T>{T{3}, T{1}});
  CHECK(M::lift(std::numeric_limits<T>::lowest()) ==
        max_sum<T>{std::numeric_limits<T>::lowest(), T{1}});
  CHECK(M::lift(-infinity<T>) == M::identity());
  CHECK(M::lift(infinity<T>).max == infinity<T>);
  CHECK(std::isnan(M::lift(not_a_number<T>).max));
}

TEST_CASE_TEMPLATE("combine by hand", T, float, double) {
  using M = max_sum_monoid<T>;
  CHECK(M::combine({T{1}, T{2}}, {T{1}, T{3}}) == max_sum<T>{T{1}, T{5}});
  const auto state = M::combine({T{0}, T{4}}, {static_cast<T>(std::log(2.0)), T{1}});
  CHECK(close(state, {static_cast<T>(std::log(2.0)), T{3}}, combine_bound<T>));
  // Too far apart to matter, and not poisoned by an overflowing difference.
  CHECK(
      M::combine({std::numeric_limits<T>::lowest(), T{7}}, {std::numeric_limits<T>::max(), T{2}}) ==
      max_sum<T>{std::numeric_limits<T>::max(), T{2}});
}

TEST_CASE_TEMPLATE("combine meets its definition within its roundings", T, float, double) {
  using M = max_sum_monoid<T>;
  const auto states = sample_states<T>(2);
  for (const auto& a : states) {
    for (const auto& b : states) {
      const auto c = M::combine(a, b);
      const T max = std::fmax(a.max, b.max);
      CAPTURE(a.max);
      CAPTURE(b.max);
      REQUIRE(c.max == max);
      const long double exact = max == -infinity<T> ? 0.0L : sum_at(a, max) + sum_at(b, max);
      CHECK(std::abs(static_cast<long double>(c.sum) - exact) <=
            static_cast<long double>(combine_bound<T>) * exact);
    }
  }
}

TEST_CASE_TEMPLATE("commutative: to the bit", T, float, double) {
  using M = max_sum_monoid<T>;
  const auto states = sample_states<T>(3);
  for (const auto& a : states) {
    for (const auto& b : states) {
      CHECK(M::combine(a, b) == M::combine(b, a));
    }
  }
}

TEST_CASE_TEMPLATE("associative within the rounding of two combines on each side", T, float,
                   double) {
  using M = max_sum_monoid<T>;
  const auto states = sample_states<T>(4);
  unsigned wrong = 0;
  for (const auto& a : states) {
    for (const auto& b : states) {
      for (const auto& c : states) {
        const auto left = M::combine(M::combine(a, b), c);
        const auto right = M::combine(a, M::combine(b, c));
        if (!close(left, right, 4.01L * static_cast<long double>(combine_bound<T>)) &&
            wrong++ == 0) {
          MESSAGE("first: (", a.max, ", ", a.sum, ") (", b.max, ", ", b.sum, ") (", c.max, ", ",
                  c.sum, "): ", left.sum, " and ", right.sum);
        }
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("-infinity contributes nothing", T, float, double) {
  using M = max_sum_monoid<T>;
  const max_sum<T> finite{T{-5}, T{2}};
  const auto masked = M::combine(M::lift(-infinity<T>), M::lift(-infinity<T>));
  CHECK(masked == M::identity());
  CHECK(M::combine(masked, finite) == finite);
  CHECK(M::combine(finite, masked) == finite);
}

TEST_CASE_TEMPLATE("NaN and +infinity win, NaN over +infinity", T, float, double) {
  using M = max_sum_monoid<T>;
  const max_sum<T> finite{T{5}, T{2}};
  const auto inf = M::lift(infinity<T>);
  const auto bad = M::lift(not_a_number<T>);
  for (const auto& other : {finite, M::identity(), inf}) {
    CHECK(M::combine(inf, other).max == infinity<T>);
    CHECK(M::combine(other, inf).max == infinity<T>);
    CHECK(M::logsumexp(M::combine(inf, other)) == infinity<T>);
    CHECK(M::logsumexp(M::combine(other, inf)) == infinity<T>);
  }
  for (const auto& other : {finite, M::identity(), inf, bad}) {
    CHECK(std::isnan(M::combine(bad, other).max));
    CHECK(std::isnan(M::combine(other, bad).max));
    CHECK(std::isnan(M::logsumexp(M::combine(bad, other))));
    CHECK(std::isnan(M::logsumexp(M::combine(other, bad))));
  }
}

TEST_CASE_TEMPLATE("logsumexp of a state", T, float, double) {
  using M = max_sum_monoid<T>;
  CHECK(M::logsumexp(M::identity()) == -infinity<T>);
  CHECK(M::logsumexp({T{3}, T{1}}) == T{3});
  CHECK(M::logsumexp({T{0}, T{4}}) == std::log(T{4}));
}

TEST_SUITE_END();
