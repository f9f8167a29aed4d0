// SPDX-License-Identifier: Apache-2.0
/// \file
/// Element types: the two 16-bit storage types and the run-time name of every type.
#pragma once

#include <softfold/config.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace softfold {

/// IEEE 754 binary16 as storage. Layout-compatible with __half, _Float16 and std::float16_t.
/// Conversion from float rounds to nearest even; conversion to float is exact.
struct half {
  std::uint16_t bits = 0;

  half() = default;
  explicit constexpr half(float value) noexcept
      : bits(round(std::bit_cast<std::uint32_t>(value))) {}
  static constexpr half from_bits(std::uint16_t b) noexcept {
    half h;
    h.bits = b;
    return h;
  }
  explicit constexpr operator float() const noexcept {
    const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
    const std::uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u) {  // infinity, NaN
      return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    }
    // Read as a binary32 whose exponent is 112 too small; the product is exact.
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
  }

 private:
  static constexpr std::uint16_t round(std::uint32_t u) noexcept {
    const std::uint32_t sign = u >> 16 & 0x8000u;
    const std::uint32_t magnitude = u & 0x7fffffffu;
    std::uint32_t result = 0;
    if (magnitude > 0x7f800000u) {
      result = 0x7e00u;
    } else if (magnitude >= 0x477ff000u) {  // 65520 and above round to infinity
      result = 0x7c00u;
    } else if (magnitude < 0x38800000u) {  // below the smallest normal: let an addition round
      const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
      result = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u;
    } else {
      result = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    }
    return static_cast<std::uint16_t>(sign | result);
  }
};

/// bfloat16 as storage: the upper half of a binary32. Layout-compatible with __nv_bfloat16,
/// hip_bfloat16 and std::bfloat16_t. Conversion from float rounds to nearest even.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  explicit constexpr bfloat16(float value) noexcept
      : bits(round(std::bit_cast<std::uint32_t>(value))) {}
  static constexpr bfloat16 from_bits(std::uint16_t b) noexcept {
    bfloat16 h;
    h.bits = b;
    return h;
  }
  explicit constexpr operator float() const noexcept {
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
  }

 private:
  static constexpr std::uint16_t round(std::uint32_t u) noexcept {
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      return static_cast<std::uint16_t>((u >> 16 & 0x8000u) | 0x7fc0u);
    }
    return static_cast<std::uint16_t>((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
  }
};

/// The run-time name of an element type.
enum class dtype : std::uint8_t { f32, f64, f16, bf16, i32, i64, u8 };

[[nodiscard]] constexpr std::size_t size_of(dtype type) noexcept {
  switch (type) {
    case dtype::u8:
      return 1;
    case dtype::f16:
    case dtype::bf16:
      return 2;
    case dtype::f32:
    case dtype::i32:
      return 4;
    case dtype::f64:
    case dtype::i64:
      return 8;
  }
  return 0;
}

[[nodiscard]] constexpr const char* name_of(dtype type) noexcept {
  switch (type) {
    case dtype::f32:
      return "f32";
    case dtype::f64:
      return "f64";
    case dtype::f16:
      return "f16";
    case dtype::bf16:
      return "bf16";
    case dtype::i32:
      return "i32";
    case dtype::i64:
      return "i64";
    case dtype::u8:
      return "u8";
  }
  return "unknown";
}

namespace detail {
template <class T>
struct dtype_of {};
template <dtype Type>
struct dtype_is {
  static constexpr dtype value = Type;
};
template <>
struct dtype_of<float> : dtype_is<dtype::f32> {};
template <>
struct dtype_of<double> : dtype_is<dtype::f64> {};
template <>
struct dtype_of<half> : dtype_is<dtype::f16> {};
template <>
struct dtype_of<bfloat16> : dtype_is<dtype::bf16> {};
template <>
struct dtype_of<std::int32_t> : dtype_is<dtype::i32> {};
template <>
struct dtype_of<std::int64_t> : dtype_is<dtype::i64> {};
template <>
struct dtype_of<std::uint8_t> : dtype_is<dtype::u8> {};
}  // namespace detail

/// A type that a view may hold: float, double, half, bfloat16, std::int32_t, std::int64_t,
/// std::uint8_t.
template <class T>
concept element = requires {
  detail::dtype_of<std::remove_cv_t<T>>::value;
};

template <element T>
inline constexpr dtype dtype_of = detail::dtype_of<std::remove_cv_t<T>>::value;

}  // namespace softfold
