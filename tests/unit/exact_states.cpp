// SPDX-License-Identifier: Apache-2.0
// States with exact sums as arithmetic: parts that meet between packets give the whole row's state
// and results bit for bit in any tree of combinations; all others give them within the bounds.
#include <core/exact_state.hpp>

#include <tests/support/reproducible_parts.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace definition = softfold::core::reproducible;
using definition::row_kind;
using definition::row_total;
using softfold::exact_max_sum;
using softfold::test::largest_of;
using softfold::test::same_total;

namespace {

template <class A>
constexpr A infinity = std::numeric_limits<A>::infinity();
template <class A>
constexpr A nan_value = std::numeric_limits<A>::quiet_NaN();

template <class A>
exact_max_sum<A> combined(const exact_max_sum<A>& a, const exact_max_sum<A>& b) {
  return definition::exact_max_sum_monoid<A>::combine(a, b);
}

template <class A>
bool same_bits(const exact_max_sum<A>& a, const exact_max_sum<A>& b) {
  return std::memcmp(static_cast<const void*>(&a), static_cast<const void*>(&b), sizeof a) == 0;
}

template <class A>
exact_max_sum<A> folded(A scale, const std::vector<A>& x, std::size_t begin, std::size_t end) {
  return definition::state_of(scale, static_cast<std::int64_t>(end - begin), [&](std::int64_t c) {
    return x[begin + static_cast<std::size_t>(c)];
  });
}

/// The states of parts that end at random multiples of `step`, some of them empty.
template <class A>
std::vector<exact_max_sum<A>> parts_of(A scale, const std::vector<A>& x, std::size_t step,
                                       std::mt19937_64& random) {
  std::vector<exact_max_sum<A>> parts;
  for (std::size_t begin = 0; begin < x.size();) {
    const std::size_t end = std::min(x.size(), begin + step * (random() % 4));
    parts.push_back(folded(scale, x, begin, end));
    begin = end;
  }
  return parts;
}

/// By a random tree.
template <class A>
exact_max_sum<A> merged(std::vector<exact_max_sum<A>> parts, std::mt19937_64& random) {
  while (parts.size() > 1) {
    std::swap(parts[random() % parts.size()], parts.back());
    const exact_max_sum<A> last = parts.back();
    parts.pop_back();
    exact_max_sum<A>& to = parts[random() % parts.size()];
    to = random() % 2 == 0 ? combined(to, last) : combined(last, to);
  }
  return parts.empty() ? exact_max_sum<A>{} : parts[0];
}

/// Elements of magnitudes that differ by part, with such that masks leave.
template <class A>
std::vector<A> row_of(std::mt19937_64& random) {
  std::vector<A> x(random() % 120);
  double mean = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i % 16 == 0) {
      mean = (random() % 2 == 0 ? 1 : 100) * (static_cast<double>(random() % 100) - 50);
    }
    x[i] = static_cast<A>(mean + static_cast<double>(random() % 1000) * 0.01);
    switch (random() % 64) {
      case 0:
        x[i] = -infinity<A>;
        break;
      case 1:
        x[i] = static_cast<A>(-1e9);
        break;
      case 2:
        x[i] = std::numeric_limits<A>::lowest();
        break;
      case 3:
        x[i] = static_cast<A>(-65536.0 * (1 + static_cast<double>(random() % 32) / 16));
        break;
      default:
        break;
    }
  }
  return x;
}

template <class A>
row_total<A> whole_of(A scale, const std::vector<A>& x) {
  return definition::total_of(scale, static_cast<std::int64_t>(x.size()),
                              [&](std::int64_t c) { return x[static_cast<std::size_t>(c)]; });
}

/// That a state's results are those of the row, within the bounds: in units of the last place.
template <class A>
void check_results(A scale, const std::vector<A>& x, const exact_max_sum<A>& state) {
  const long double unit = std::numeric_limits<A>::epsilon() / 2;
  const A largest = largest_of(scale, x, 0, x.size());
  const auto below = [&](A element) {
    return static_cast<long double>(scale) *
           (static_cast<long double>(element) - static_cast<long double>(largest));
  };
  long double sum = 0;
  for (const A element : x) {
    sum += std::exp(below(element));
  }
  const auto total = definition::total_of(scale, state);
  REQUIRE(total.kind == row_kind::ordinary);
  const long double terms = 16 + std::log2(static_cast<long double>(x.size()));
  const long double lse = static_cast<long double>(scale) * largest + std::log(sum);
  CHECK(std::fabs(total.lse - lse) <= (std::fabs(lse) + terms) * unit);
  for (const A element : x) {
    const long double y = std::exp(below(element)) / sum;
    const long double z = std::fabs(below(element));
    if (y > static_cast<long double>(std::numeric_limits<A>::min())) {
      CHECK(std::fabs(total.softmax(element) - y) <= (terms + z) * unit * y);
    }
    const long double logarithm = below(element) - std::log(sum);
    if (std::isfinite(static_cast<A>(logarithm))) {
      CHECK(std::fabs(total.log_softmax(element) - logarithm) <=
            (z + std::fabs(logarithm) + terms) * unit);
    }
  }
}

}  // namespace

TEST_SUITE_BEGIN("exact_states");

TEST_CASE_TEMPLATE("parts between packets give the whole row's bits in any tree", A, float,
                   double) {
  std::mt19937_64 random(21);
  int ordinary = 0;
  for (int turn = 0; turn < 10000; ++turn) {
    const A scale = static_cast<A>(std::array{1.0, 1.0, 0.37, -2.0, 0.0, 1e-30}[random() % 6]);
    std::vector<A> x = row_of<A>(random);
    if (scale < 0) {
      for (A& element : x) {
        element = -element;
      }
    }
    if (random() % 20 == 0 && !x.empty()) {
      x[random() % x.size()] = random() % 2 == 0 ? nan_value<A> : infinity<A>;
    }
    const exact_max_sum<A> whole = folded(scale, x, 0, x.size());
    const exact_max_sum<A> found = merged(parts_of(scale, x, 8, random), random);
    const row_total<A> total = whole_of(scale, x);
    if (total.exponents.is_far) {  // a row of nothing but what a mask left
      continue;
    }
    CHECK(same_bits(found, whole));
    const row_total<A> of_state = definition::total_of(scale, found);
    CHECK(of_state.kind == total.kind);
    if (total.kind == row_kind::ordinary) {
      ++ordinary;
      CHECK(same_total(of_state, total));
    }
  }
  CHECK(ordinary > 8500);
}

TEST_CASE_TEMPLATE("rows that are not ordinary have one state each", A, float, double) {
  const exact_max_sum<A> none;
  const std::vector<A> empty(20, -infinity<A>);
  CHECK(same_bits(folded(A(1), {}, 0, 0), none));
  CHECK(same_bits(folded(A(1), empty, 0, 20), none));
  CHECK(same_bits(folded(A(0), empty, 0, 20), none));
  std::vector<A> some(20, A(3));
  const exact_max_sum<A> ordinary = folded(A(1), some, 0, 20);
  some[7] = infinity<A>;
  const exact_max_sum<A> infinite = folded(A(1), some, 0, 20);
  some[9] = -nan_value<A>;
  const exact_max_sum<A> with_nan = folded(A(1), some, 0, 20);
  CHECK(infinite.max == infinity<A>);
  CHECK(std::isnan(with_nan.max));
  CHECK(!std::signbit(with_nan.max));
  const exact_max_sum<A> in_order[] = {none, ordinary, infinite, with_nan};
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      if (i != 1 || j != 1) {
        CHECK(same_bits(combined(in_order[i], in_order[j]), in_order[std::max(i, j)]));
      }
    }
  }
  CHECK(definition::total_of(A(1), none).lse == -infinity<A>);
  CHECK(definition::total_of(A(1), infinite).lse == infinity<A>);
  CHECK(std::isnan(definition::total_of(A(1), with_nan).lse));
}

TEST_CASE_TEMPLATE("equal largest elements are one, those that round alike are two", A, float,
                   double) {
  CHECK(same_bits(folded(A(1), {A(-0.0)}, 0, 1), folded(A(1), {A(0.0)}, 0, 1)));
  const A scale = A(0.7);
  A low = A(1.9);
  const auto z = [&](A x) { return definition::frame<A>::scaled(scale, x).z; };
  while (z(low) != z(std::nextafter(low, A(2)))) {
    low = std::nextafter(low, A(2));
  }
  std::vector<A> x(16, low);
  x[8] = std::nextafter(low, A(2));
  const exact_max_sum<A> first = folded(scale, x, 0, 8);
  const exact_max_sum<A> second = folded(scale, x, 8, 16);
  CHECK(first.lost < second.lost);
  CHECK(same_bits(combined(first, second), folded(scale, x, 0, 16)));
  CHECK(same_bits(combined(second, first), folded(scale, x, 0, 16)));
}

TEST_CASE_TEMPLATE("parts cut anywhere are within the bounds", A, float, double) {
  std::mt19937_64 random(22);
  for (int turn = 0; turn < 500; ++turn) {
    const A scale = static_cast<A>(std::array{1.0, 0.37, -0.5}[random() % 3]);
    std::vector<A> x(1 + random() % 200);
    for (A& element : x) {
      element = static_cast<A>(static_cast<double>(random() % 4000) * 0.01);
    }
    check_results(scale, x, merged(parts_of(scale, x, 1, random), random));
  }
}

TEST_CASE_TEMPLATE("far rows are within the bounds, and combine without an order of two", A, float,
                   double) {
  std::mt19937_64 random(23);
  const double size = sizeof(A) == 4 ? 0x1p-5 : 0x1p-30;
  for (const double center : {65536.0, -65536.0, -98304.0, -131072.0, 1e5, -1e6, 0x1p29, -0x1p31}) {
    for (int turn = 0; turn < 40; ++turn) {
      const A scale = static_cast<A>(std::array{1.0, 0.37, -0.5}[random() % 3]);
      std::vector<A> x(1 + random() % 100);
      for (A& element : x) {
        const double step = std::max(size * std::fabs(center) * 0x1p-16, 0.01);
        element =
            static_cast<A>((center + static_cast<double>(random() % 600) * step - 300 * step) /
                           static_cast<double>(scale));
      }
      const std::size_t step = turn % 2 == 0 ? 8 : 1;
      const auto parts = parts_of(scale, x, step, random);
      check_results(scale, x, merged(parts, random));
      for (std::size_t i = 1; i < parts.size(); ++i) {
        CHECK(same_bits(combined(parts[i], parts[i - 1]), combined(parts[i - 1], parts[i])));
      }
    }
  }
}

TEST_CASE_TEMPLATE("a near side and a far one", A, float, double) {
  const std::vector<A> high{A(70000), A(69999)};
  const std::vector<A> low{A(65535), A(65534), A(3)};
  std::vector<A> both = high;
  both.insert(both.end(), low.begin(), low.end());
  check_results(A(1), both, combined(folded(A(1), high, 0, 2), folded(A(1), low, 0, 3)));
  const std::vector<A> above{A(65536), A(65536.5)};
  both = above;
  both.insert(both.end(), low.begin(), low.end());
  check_results(A(1), both, combined(folded(A(1), low, 0, 3), folded(A(1), above, 0, 2)));
  // A row that is near, of which one part would not be.
  std::vector<A> border;
  for (int i = 0; i < 16; ++i) {
    border.push_back(static_cast<A>(i < 8 ? -65535.5 - i % 3 * 0.125 : -65536.5 - i % 5 * 0.125));
  }
  const exact_max_sum<A> upper = folded(A(1), border, 0, 8);
  const exact_max_sum<A> lower = folded(A(1), border, 8, 16);
  CHECK(same_bits(combined(lower, upper), folded(A(1), border, 0, 16)));
  CHECK(!same_bits(combined(lower, upper), upper));
  CHECK(same_total(definition::total_of(A(1), combined(upper, lower)), whole_of(A(1), border)));
  // What a mask left beside a row adds nothing.
  const std::vector<A> row{A(1), A(2)};
  const exact_max_sum<A> state = folded(A(1), row, 0, 2);
  const std::vector<A> masked(8, A(-1e9));
  CHECK(same_bits(combined(folded(A(1), masked, 0, 8), state), state));
}

TEST_CASE_TEMPLATE("words have room for more columns than there are", A, float, double) {
  std::vector<A> x(64);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<A>(0.6931471805599453 * (28 + static_cast<double>(i % 4)));
  }
  const exact_max_sum<A> once = folded(A(1), x, 0, x.size());
  exact_max_sum<A> s = once;
  constexpr int doublings = 55;
  for (int i = 0; i < doublings; ++i) {
    s = combined(s, s);
  }
  CHECK(s.max == once.max);
  CHECK(s.top == once.top);
  for (std::size_t i = 0; i < std::size(s.words); ++i) {  // nothing is carried, nothing lost
    CHECK(s.words[i][0] == once.words[i][0] << doublings);
    CHECK(s.words[i][1] ==
          ((once.words[i][1] << doublings) | (once.words[i][0] >> (64 - doublings))));
  }
  const long double added = doublings * std::log(2.0L);
  const long double expected = definition::total_of(A(1), once).lse + added;
  CHECK(std::fabs(definition::total_of(A(1), s).lse - expected) <=
        2 * expected * std::numeric_limits<A>::epsilon());
}
