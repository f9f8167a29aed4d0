// SPDX-License-Identifier: Apache-2.0
// The arithmetic of edits.
#include <core/softcap.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>

namespace softfold::core {
namespace {

/// The largest error of c tanh(x / c) in units of the last place of the exact value.
template <class A>
long double largest_error(A c, A from, A to) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<long double> exponent(std::log2(static_cast<long double>(from)),
                                                       std::log2(static_cast<long double>(to)));
  long double largest = 0;
  for (int i = 0; i < 200000; ++i) {
    const A x = static_cast<A>(std::exp2(exponent(random)));
    const long double exact = static_cast<long double>(c) *
                              std::tanh(static_cast<long double>(x) / static_cast<long double>(c));
    const auto near = static_cast<A>(exact);
    const long double unit =
        static_cast<long double>(std::nextafter(near, 2 * near)) - static_cast<long double>(near);
    largest =
        std::max(largest, std::abs(static_cast<long double>(softcapped(x, c)) - exact) / unit);
    CHECK(softcapped(-x, c) == -softcapped(x, c));
  }
  return largest;
}

TEST_SUITE("edits") {
  TEST_CASE_TEMPLATE("softcap is tanh", A, float, double) {
    for (const A c : {A{0.5}, A{30}, A{50}}) {
      CHECK(largest_error(c, c * static_cast<A>(1e-6), c * A{12}) <= 5);
    }
  }

  TEST_CASE_TEMPLATE("softcap of what is no number, none or too large", A, float, double) {
    const A infinity = std::numeric_limits<A>::infinity();
    CHECK(softcapped(A{0}, A{30}) == 0);
    CHECK(softcapped(infinity, A{30}) == 30);
    CHECK(softcapped(-infinity, A{30}) == -30);
    CHECK(softcapped(std::numeric_limits<A>::max(), A{30}) == 30);
    CHECK(std::isnan(softcapped(std::numeric_limits<A>::quiet_NaN(), A{30})));
    A before = 0;
    for (A x = 0; x < 200; x += A{0.03125}) {  // never down
      CHECK(softcapped(x, A{30}) >= before);
      before = softcapped(x, A{30});
    }
  }
}

}  // namespace
}  // namespace softfold::core
