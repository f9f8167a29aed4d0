// SPDX-License-Identifier: Apache-2.0
// Reproducible numerics as arithmetic: that neither cuts between packets nor the order of merging
// show, and their error against long double.
#include <core/reproducible.hpp>

#include <tests/support/reproducible_parts.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace definition = softfold::core::reproducible;
using definition::exact_sum;
using definition::row_total;
using softfold::test::largest_of;
using softfold::test::same_total;
using softfold::test::sum_of_part;

namespace {

template <class A>
constexpr A infinity = std::numeric_limits<A>::infinity();

template <class A>
std::vector<A> row_of(std::mt19937_64& random) {
  const double deviation = std::pow(10.0, static_cast<int>(random() % 5) - 1);
  double mean = static_cast<int>(random() % 4) * (random() % 2 == 0 ? -37.3 : 900);
  mean *= random() % 7 == 0 ? 1e4 : 1;
  std::normal_distribution<double> normal(mean, deviation);
  std::vector<A> x(1 + random() % 3000);
  for (A& element : x) {
    element = static_cast<A>(normal(random));
  }
  return x;
}

/// The largest errors so far, in units of 2^-24 or 2^-53, and of what they are allowed to grow
/// with.
struct errors {
  double softmax = 0, log_softmax = 0, logsumexp = 0;
};

template <class A>
void measure(const std::vector<A>& x, A scale, const row_total<A>& total, errors& worst) {
  constexpr long double unit = std::numeric_limits<A>::epsilon() / 2;
  const A largest = largest_of(scale, x, 0, x.size());
  const auto below = [&](A element) {
    return static_cast<long double>(scale) *
           (static_cast<long double>(element) - static_cast<long double>(largest));
  };
  long double sum = 0;
  for (const A element : x) {
    sum += std::exp(below(element));
  }
  const auto raise = [&](double& to, long double error, long double size) {
    to = std::max(to, static_cast<double>(std::fabs(error) / (unit * size)));
  };
  for (const A element : x) {
    const long double y = std::exp(below(element)) / sum;
    if (y > static_cast<long double>(std::numeric_limits<A>::min())) {
      raise(worst.softmax, static_cast<long double>(total.softmax(element)) - y, y);
    }
    const long double logarithm = below(element) - std::log(sum);
    raise(worst.log_softmax, static_cast<long double>(total.log_softmax(element)) - logarithm,
          16 + std::fabs(logarithm));
    CHECK(total.log_softmax(element) <= 0);
  }
  const long double lse = static_cast<long double>(scale) * largest + std::log(sum);
  raise(worst.logsumexp, static_cast<long double>(total.lse) - lse, 16 + std::fabs(lse));
}

}  // namespace

TEST_SUITE_BEGIN("reproducible");

TEST_CASE_TEMPLATE("cuts between packets and orders of merging do not show", A, float, double) {
  std::mt19937_64 random(5);
  int rows = 0;
  for (int turn = 0; turn < 10000; ++turn) {
    std::vector<A> x = row_of<A>(random);
    const A scale = random() % 3 != 0 ? A(1) : static_cast<A>(random() % 2 == 0 ? -0.37 : 0.37);
    for (A& element : x) {
      element = random() % 50 == 0 ? (scale < 0 ? infinity<A> : -infinity<A>) : element;
    }
    const auto at = [&](std::int64_t c) { return x[static_cast<std::size_t>(c)]; };
    const auto whole = definition::total_of(scale, static_cast<std::int64_t>(x.size()), at);
    if (whole.kind != definition::row_kind::ordinary) {
      continue;
    }
    ++rows;
    std::vector<exact_sum<A>> parts;
    for (std::size_t begin = 0; begin < x.size();) {
      const std::size_t end = std::min(x.size(), begin + 8 * (1 + random() % 20));
      parts.push_back(
          sum_of_part(whole.exponents, x, begin, end, static_cast<std::int32_t>(random() % 2)));
      begin = end;
    }
    while (parts.size() > 1) {
      const std::size_t to = random() % parts.size();
      const std::size_t from = random() % parts.size();
      if (to != from) {
        parts[to].add(parts[from]);
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(from));
      }
    }
    const A largest = largest_of(scale, x, 0, x.size());
    CHECK(same_total(row_total<A>::of(scale, largest, parts[0]), whole));
  }
  CHECK(rows > 9000);
}

TEST_CASE_TEMPLATE("errors are within the bounds", A, float, double) {
  std::mt19937_64 random(7);
  errors worst;
  for (int turn = 0; turn < 1000; ++turn) {
    const std::vector<A> x = row_of<A>(random);
    const A scale = random() % 3 != 0 ? A(1) : static_cast<A>(random() % 2 == 0 ? -0.37 : 0.37);
    const auto at = [&](std::int64_t c) { return x[static_cast<std::size_t>(c)]; };
    measure(x, scale, definition::total_of(scale, static_cast<std::int64_t>(x.size()), at), worst);
  }
  MESSAGE("softmax " << worst.softmax << " u, log_softmax " << worst.log_softmax
                     << " u (16 + |y|), logsumexp " << worst.logsumexp << " u (16 + |lse|)");
  CHECK(worst.softmax < 10);
  CHECK(worst.log_softmax < 2.5);
  CHECK(worst.logsumexp < 2);
}

TEST_CASE_TEMPLATE("one element has all", A, float, double) {
  for (const A x : {A(0), A(-0.0), A(3.7), A(-1e5), A(1e30)}) {
    for (const A scale : {A(1), A(0.3), A(-2), A(0)}) {
      const auto row = definition::total_of(scale, 1, [x](std::int64_t) { return x; });
      CHECK(row.softmax(x) == 1);
      CHECK(row.log_softmax(x) == 0);
      CHECK(row.lse == scale * x);
    }
  }
}

TEST_CASE_TEMPLATE("exp(y) of gradients", A, float, double) {
  constexpr A unit = std::numeric_limits<A>::epsilon() / 2;
  CHECK(definition::exponential_of(-infinity<A>) == 0);
  CHECK(definition::exponential_of(infinity<A>) == infinity<A>);
  CHECK(definition::exponential_of(A(0)) == 1);
  CHECK(std::isnan(definition::exponential_of(std::numeric_limits<A>::quiet_NaN())));
  std::mt19937_64 random(9);
  std::uniform_real_distribution<double> of(sizeof(A) == 4 ? -110 : -760,
                                            sizeof(A) == 4 ? 90 : 715);
  for (int i = 0; i < 100000; ++i) {
    const A y = static_cast<A>(of(random));
    const long double exact = std::exp(static_cast<long double>(y));
    const A found = definition::exponential_of(y);
    if (exact > static_cast<long double>(std::numeric_limits<A>::max())) {
      continue;
    }
    const long double error = std::fabs(static_cast<long double>(found) - exact);
    // What format<float>::ln2 lacks counts once for each power of two.
    const long double units = 3.5L + (sizeof(A) == 4 ? 0.05L * std::fabs(y) : 0);
    CHECK(error <= units * unit * exact + std::numeric_limits<A>::denorm_min());
  }
}

TEST_CASE_TEMPLATE("a gradient's sum is near enough", A, float, double) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  for (const std::size_t cols : {1U, 8U, 9U, 2048U, 2049U, 40000U}) {
    std::vector<A> y(cols);
    std::vector<A> dy(cols);
    long double exact = 0;
    long double size = 0;
    for (std::size_t i = 0; i < cols; ++i) {
      y[i] = static_cast<A>(std::fabs(normal(random)));
      dy[i] = static_cast<A>(normal(random));
      exact += static_cast<long double>(y[i]) * dy[i];
      size += std::fabs(static_cast<long double>(y[i]) * dy[i]);
    }
    const auto row = definition::gradient_of<A>(
        false, A(1), static_cast<std::int64_t>(cols),
        [&](std::int64_t c) { return y[static_cast<std::size_t>(c)]; },
        [&](std::int64_t c) { return dy[static_cast<std::size_t>(c)]; });
    const long double found = static_cast<long double>(row.high) + row.low;
    CHECK(std::fabs(found - exact) <= 16 * 0x1p-53L * size);
    CHECK(std::fabs(row.low) <= std::fabs(row.high) * std::numeric_limits<A>::epsilon());
  }
}
