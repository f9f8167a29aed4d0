// SPDX-License-Identifier: Apache-2.0
// half and bfloat16: exact to float, nearest even from float. The expected values come from the
// formats' definitions (sign, exponent, fraction) in double, not from bit tricks.
#include <softfold/dtype.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>

using softfold::bfloat16;
using softfold::dtype;
using softfold::half;

namespace {

struct half_format {
  using type = half;
  static constexpr int fraction_bits = 10;
  static constexpr int bias = 15;
};

struct bfloat16_format {
  using type = bfloat16;
  static constexpr int fraction_bits = 7;
  static constexpr int bias = 127;
};

template <class Format>
struct format : Format {
  using type = typename Format::type;
  static constexpr unsigned infinity = 0x7fffu & ~((1u << Format::fraction_bits) - 1u);

  static type make(unsigned bits) { return type::from_bits(static_cast<std::uint16_t>(bits)); }

  /// The value of a non-negative finite bit pattern; of infinity's, the value that would come
  /// after the greatest finite one, from which on the rounding decides.
  static double value(unsigned bits) {
    const int exponent = static_cast<int>(bits >> Format::fraction_bits);
    const int fraction = static_cast<int>(bits & ((1u << Format::fraction_bits) - 1u));
    const int significand = exponent == 0 ? fraction : fraction + (1 << Format::fraction_bits);
    return std::ldexp(significand,
                      (exponent == 0 ? 1 : exponent) - Format::bias - Format::fraction_bits);
  }

  /// Nearest even by search among the values.
  static unsigned nearest(double magnitude) {
    if (magnitude >= value(infinity)) {
      return infinity;
    }
    unsigned low = 0;
    unsigned high = infinity;
    while (high - low > 1) {
      const unsigned middle = (low + high) / 2;
      (value(middle) <= magnitude ? low : high) = middle;
    }
    const double below = magnitude - value(low);
    const double above = value(high) - magnitude;
    return below < above || (below == above && low % 2 == 0) ? low : high;
  }
};

}  // namespace

TYPE_TO_STRING(half_format);
TYPE_TO_STRING(bfloat16_format);

TEST_SUITE_BEGIN("dtype");

TEST_CASE_TEMPLATE("every bit pattern converts to the float it denotes and back", Format,
                   half_format, bfloat16_format) {
  using f = format<Format>;
  unsigned wrong = 0;
  for (unsigned bits = 0; bits <= 0xffffu; ++bits) {
    const auto value = static_cast<float>(f::make(bits));
    const unsigned magnitude = bits & 0x7fffu;
    const bool negative = bits != magnitude;
    bool ok = std::signbit(value) == negative;
    const auto back = typename f::type(value);
    if (magnitude > f::infinity) {
      const unsigned quiet = f::infinity | 1u << (Format::fraction_bits - 1);
      ok = ok && std::isnan(value) && back.bits == ((bits & 0x8000u) | quiet);
    } else {
      const double expected =
          magnitude == f::infinity ? std::numeric_limits<double>::infinity() : f::value(magnitude);
      ok = ok && std::abs(static_cast<double>(value)) == expected && back.bits == bits;
    }
    if (!ok && wrong++ == 0) {
      MESSAGE("first wrong bit pattern: ", bits, ", float ", value, ", back ", back.bits);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("midpoints between neighbours go to even, and the floats beside them do not",
                   Format, half_format, bfloat16_format) {
  using f = format<Format>;
  unsigned wrong = 0;
  for (unsigned low = 0; low < f::infinity; ++low) {
    const double middle = (f::value(low) + f::value(low + 1)) / 2;
    const auto tie = static_cast<float>(middle);
    REQUIRE(static_cast<double>(tie) == middle);
    const unsigned even = low % 2 == 0 ? low : low + 1;
    const auto expect = [&](float from, unsigned to) {
      if ((typename f::type(from).bits != to || typename f::type(-from).bits != (to | 0x8000u)) &&
          wrong++ == 0) {
        MESSAGE("first wrong: ", from, " gives ", typename f::type(from).bits, ", not ", to);
      }
    };
    expect(tie, even);
    expect(std::nextafter(tie, 0.0F), low);
    expect(std::nextafter(tie, std::numeric_limits<float>::infinity()), low + 1);
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("a dense sample of all floats rounds to nearest even", Format, half_format,
                   bfloat16_format) {
  using f = format<Format>;
  unsigned wrong = 0;
  // A stride prime to every power of two reaches all exponents and low bits.
  for (std::uint32_t u = 0; u < 0x7f800000u; u += 2039) {
    const auto x = std::bit_cast<float>(u);
    const unsigned expected = f::nearest(static_cast<double>(x));
    if ((typename f::type(x).bits != expected ||
         typename f::type(-x).bits != (expected | 0x8000u)) &&
        wrong++ == 0) {
      MESSAGE("first wrong: ", x, " gives ", typename f::type(x).bits, ", not ", expected);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("limits of half") {
  CHECK(half(65504.0F).bits == 0x7bff);
  CHECK(half(std::nextafter(65520.0F, 0.0F)).bits == 0x7bff);
  CHECK(half(65520.0F).bits == 0x7c00);
  CHECK(half(-65520.0F).bits == 0xfc00);
  CHECK(half(std::numeric_limits<float>::max()).bits == 0x7c00);
  CHECK(half(0x1p-24F).bits == 0x0001);
  CHECK(half(0x1p-25F).bits == 0x0000);  // a tie with zero
  CHECK(half(std::nextafter(0x1p-25F, 1.0F)).bits == 0x0001);
  CHECK(half(std::numeric_limits<float>::denorm_min()).bits == 0x0000);
}

TEST_CASE("limits of bfloat16") {
  CHECK(bfloat16(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(bfloat16(std::bit_cast<float>(0x7f7f7fffu)).bits == 0x7f7f);
  CHECK(bfloat16(std::bit_cast<float>(0x7f7f8000u)).bits == 0x7f80);  // a tie, to even: infinity
  CHECK(bfloat16(1.0F).bits == 0x3f80);
}

TEST_CASE_TEMPLATE("NaN stays NaN whatever its payload, infinities stay themselves", Format,
                   half_format, bfloat16_format) {
  using f = format<Format>;
  for (const std::uint32_t u : {0x7f800001u, 0x7f80ffffu, 0x7fc00000u, 0x7fffffffu, 0x7fbfffffu,
                                0xff800001u, 0xffc00000u, 0xffffffffu}) {
    const unsigned bits = typename f::type(std::bit_cast<float>(u)).bits;
    CHECK((bits & 0x7fffu) > f::infinity);
    CHECK((bits & 0x8000u) == (u >> 16 & 0x8000u));
  }
  CHECK(typename f::type(std::numeric_limits<float>::quiet_NaN()).bits ==
        (f::infinity | 1u << (Format::fraction_bits - 1)));
  CHECK(typename f::type(std::numeric_limits<float>::infinity()).bits == f::infinity);
  CHECK(typename f::type(-std::numeric_limits<float>::infinity()).bits == (f::infinity | 0x8000u));
}

TEST_CASE("storage types are two plain bytes and convert at compile time") {
  static_assert(sizeof(half) == 2 && alignof(half) == 2 && std::is_trivially_copyable_v<half>);
  static_assert(sizeof(bfloat16) == 2 && alignof(bfloat16) == 2 &&
                std::is_trivially_copyable_v<bfloat16>);
  static_assert(half(1.5F).bits == 0x3e00 && static_cast<float>(half::from_bits(0x3e00)) == 1.5F);
  static_assert(bfloat16(1.5F).bits == 0x3fc0);
  static_assert(!std::is_convertible_v<float, half> && !std::is_convertible_v<half, float>,
                "a conversion that rounds, or hides one, is written out");
  CHECK(half{}.bits == 0);
  CHECK(bfloat16{}.bits == 0);
}

TEST_CASE("run-time names and sizes of types") {
  static_assert(softfold::dtype_of<float> == dtype::f32);
  static_assert(softfold::dtype_of<const double> == dtype::f64);
  static_assert(softfold::dtype_of<half> == dtype::f16);
  static_assert(softfold::dtype_of<const bfloat16> == dtype::bf16);
  static_assert(softfold::dtype_of<std::int32_t> == dtype::i32);
  static_assert(softfold::dtype_of<std::int64_t> == dtype::i64);
  static_assert(softfold::element<const float> && !softfold::element<std::uint16_t> &&
                !softfold::element<long double>);
  CHECK(softfold::size_of(dtype::f16) == sizeof(half));
  CHECK(softfold::size_of(dtype::bf16) == sizeof(bfloat16));
  CHECK(softfold::size_of(dtype::f32) == sizeof(float));
  CHECK(softfold::size_of(dtype::f64) == sizeof(double));
  CHECK(softfold::size_of(dtype::i32) == sizeof(std::int32_t));
  CHECK(softfold::size_of(dtype::i64) == sizeof(std::int64_t));
  CHECK(softfold::name_of(dtype::bf16) == doctest::String("bf16"));
  CHECK(softfold::name_of(dtype::f16) == doctest::String("f16"));
  CHECK(softfold::name_of(dtype::f32) == doctest::String("f32"));
  CHECK(softfold::name_of(dtype::f64) == doctest::String("f64"));
  CHECK(softfold::name_of(dtype::i32) == doctest::String("i32"));
  CHECK(softfold::name_of(dtype::i64) == doctest::String("i64"));
}

TEST_SUITE_END();
