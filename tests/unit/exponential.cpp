// SPDX-License-Identifier: Apache-2.0
// The exponential's constants: exact where they must be, and as accurate as their text says.
#include <core/exponential.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <type_traits>

using softfold::core::exponential;
using softfold::core::exponential_polynomial;
using softfold::core::exponential_table;

namespace {

/// The smallest vector: one lane, in any precision, with a fma that rounds once or twice.
template <class T, bool once>
struct lane {
  T value;
  explicit constexpr lane(T v) : value(v) {}
  friend lane operator+(lane a, lane b) { return lane(a.value + b.value); }
  friend lane operator*(lane a, lane b) { return lane(a.value * b.value); }
  friend lane fma(lane a, lane b, lane c) {
    return once ? lane(std::fma(a.value, b.value, c.value)) : a * b + c;
  }
};

template <class T, bool once>
T fma_of(T a, T b, T c) {
  return fma(lane<T, once>(a), lane<T, once>(b), lane<T, once>(c)).value;
}

/// x = n ln 2 + t with n a multiple of 1/size.
template <class T, bool once, int size>
void reduce(T x, T& n, T& t) {
  using c = exponential<T>;
  const T magic = c::round_magic / size;
  n = fma_of<T, once>(x, c::log2_e, magic) - magic;
  t = fma_of<T, once>(n, -c::ln2_high, x);
  t = fma_of<T, once>(n, -c::ln2_low, t);
}

/// exp by the documented steps with nothing but T's arithmetic.
template <class T, bool once>
T by_polynomial(T x) {
  T n = 0;
  T t = 0;
  reduce<T, once, 1>(x, n, t);
  return std::ldexp(exponential_polynomial<T, once>(lane<T, once>(t)).value, static_cast<int>(n));
}

template <int size>
float by_table(float x) {
  using table = exponential_table<size>;
  float n = 0;
  float t = 0;
  reduce<float, true, size>(x, n, t);
  const int step = static_cast<int>(n * static_cast<float>(size));
  const int whole = static_cast<int>(std::floor(n));
  const float power = table::powers[step - whole * size];
  float c = table::c[0];
  for (std::size_t i = 1; i < std::size(table::c); ++i) {
    c = std::fma(c, t, table::c[i]);
  }
  // The exponent last, as an origin makes it in the kernels: power * t must not underflow.
  return std::ldexp(std::fma(power * t, std::fma(c, t, 1.0F), power), whole);
}

/// The largest error in ulp over the floats of [-87, 0]: one of 31, or every one of them when
/// SOFTFOLD_TEST_FULL_WALK is set in the environment (some seconds for each function).
template <class F>
double largest_error(F&& f) {
  const std::uint32_t step = std::getenv("SOFTFOLD_TEST_FULL_WALK") == nullptr ? 31 : 1;
  const auto first = std::bit_cast<std::uint32_t>(0x1p-27F);  // below it, every result is 1
  const auto last = std::bit_cast<std::uint32_t>(87.0F);
  double worst = 0;
  for (std::uint32_t u = first; u <= last; u += step) {
    const float x = -std::bit_cast<float>(u);
    const double exact = std::exp(static_cast<double>(x));
    // The ulp of the binade that the exact value lies in.
    const auto binade = std::bit_cast<std::uint64_t>(exact) & 0x7ff0000000000000u;
    const double ulp = std::bit_cast<double>(binade) * 0x1p-23;
    const double error = std::abs(static_cast<double>(f(x)) - exact) / ulp;
    worst = error > worst ? error : worst;
  }
  return worst;
}

}  // namespace

TEST_SUITE_BEGIN("exponential");

TEST_CASE_TEMPLATE("constants of the type", T, float, double) {
  using c = exponential<T>;
  static_assert(sizeof(typename c::bits) == sizeof(T));
  CHECK(c::exponent_bias == std::numeric_limits<T>::max_exponent - 1);
  CHECK(c::log2_e == static_cast<T>(1.442695040888963407359924681L));
  // Adding the magic number leaves the rounded integer in the low bits.
  for (const int n : {-1000, -150, -1, 0, 1, 7, 1000}) {
    const auto zero = std::bit_cast<typename c::bits>(c::round_magic);
    const auto bits = std::bit_cast<typename c::bits>(c::round_magic + static_cast<T>(n));
    CHECK(static_cast<std::int64_t>(bits) - static_cast<std::int64_t>(zero) == n);
  }
}

TEST_CASE_TEMPLATE("ln 2 in two parts, the first exact under every multiplier", T, float, double) {
  using c = exponential<T>;
  const long double ln2 = 0.693147180559945309417232121458L;
  const long double parts =
      static_cast<long double>(c::ln2_high) + static_cast<long double>(c::ln2_low);
  // The parts' error, times the largest n, must vanish beside the roundoff.
  const int largest = std::numeric_limits<T>::max_exponent + std::numeric_limits<T>::digits;
  CHECK(std::abs(parts - ln2) * largest <=
        static_cast<long double>(std::numeric_limits<T>::epsilon()) / 64);
  for (int n = -largest; n <= largest; ++n) {
    const T product = static_cast<T>(n) * c::ln2_high;
    REQUIRE(static_cast<long double>(product) == n * static_cast<long double>(c::ln2_high));
  }
}

TEST_CASE_TEMPLATE("the polynomial's error is small beside the roundoff", T, float, double) {
  const long double reach = 1.0005L * 0.693147180559945309417232121458L / 2;
  long double worst = 0;
  constexpr int steps = 100000;
  for (int i = -steps; i <= steps; ++i) {
    const long double t = reach * i / steps;
    const long double value = exponential_polynomial<T, true>(lane<long double, true>(t)).value;
    worst = std::max(worst, std::abs(value / std::exp(t) - 1));
  }
  CAPTURE(static_cast<double>(worst));
  CHECK(worst <= static_cast<long double>(std::numeric_limits<T>::epsilon()) / 16);  // u / 8
}

TEST_CASE("every way to a float exponential keeps its measured ulps") {
  const double fused = largest_error(by_polynomial<float, true>);
  const double unfused = largest_error(by_polynomial<float, false>);
  const double table_16 = largest_error(by_table<16>);
  const double table_8 = largest_error(by_table<8>);
  MESSAGE("largest error in ulp: polynomial ", fused, ", without fused multiply-add ", unfused,
          ", table of 16 ", table_16, ", table of 8 ", table_8);
  CHECK(fused <= 1);
  CHECK(unfused <= 1.5);
  CHECK(table_16 <= 1.005);
  CHECK(table_8 <= 0.915);
}

TEST_CASE_TEMPLATE("a double exponential, with and without fused multiply-add", F,
                   std::integral_constant<bool, true>, std::integral_constant<bool, false>) {
  long double worst = 0;
  constexpr int steps = 200000;
  for (int i = 0; i <= steps; ++i) {
    const double x = -708.0 * i / steps;
    const long double exact = std::exp(static_cast<long double>(x));
    int exponent = 0;
    std::frexp(exact, &exponent);
    const long double ulp = std::ldexp(1.0L, exponent - 53);
    const long double value = by_polynomial<double, F::value>(x);
    worst = std::max(worst, std::abs(value - exact) / ulp);
  }
  CAPTURE(static_cast<double>(worst));
  CHECK(worst <= (F::value ? 1.0L : 1.5L));
}

TEST_CASE("the exponential of zero is one") {
  for (const float zero : {0.0F, -0.0F}) {
    CHECK(by_polynomial<float, true>(zero) == 1);
    CHECK(by_polynomial<float, false>(zero) == 1);
    CHECK(by_polynomial<double, true>(static_cast<double>(zero)) == 1);
    CHECK(by_table<16>(zero) == 1);
    CHECK(by_table<8>(zero) == 1);
  }
}

TEST_CASE_TEMPLATE("tables of powers of two", Size, std::integral_constant<int, 16>,
                   std::integral_constant<int, 8>) {
  constexpr int size = Size::value;
  using table = exponential_table<size>;
  static_assert(std::size(table::powers) == static_cast<std::size_t>(size));
  constexpr auto packed = softfold::core::exponential_table_bits<size>();
  for (int k = 0; k < size; ++k) {
    CAPTURE(k);
    CHECK(table::powers[k] == static_cast<float>(std::exp2(static_cast<double>(k) / size)));
    CHECK(packed.bits[k] + static_cast<std::uint32_t>(k) * (0x800000u / size) ==
          std::bit_cast<std::uint32_t>(table::powers[k]));
  }
}

TEST_SUITE_END();
