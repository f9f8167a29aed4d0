// SPDX-License-Identifier: Apache-2.0
/// \file
/// The elements of a vector of 16 bytes: read, set, packed, and stored in part.
#pragma once

#include <gpu/state/exponential.hpp>

#include <core/real_types.hpp>
#include <softfold/dtype.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

using core::arithmetic_t;

/// Elements of a 16-byte vector.
template <class In>
inline constexpr int vector_width = 16 / static_cast<int>(sizeof(In));

__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline float widen(half x) { return to_float(x); }
__device__ inline float widen(bfloat16 x) { return to_float(x); }

/// Writes bytes [from, until) of a vector, from = 0 or until = 16, both multiples of 2, by one
/// store of each size at most; `to` is aligned to 16 bytes.
__device__ inline void store_part(void* to, block16 v, int from, int until) {
  auto* const bytes = static_cast<unsigned char*>(to);
  const bool low = from == 0;
  const int n = until - from;
  const auto word = [&](int w) {
    return w < 2 ? (w == 0 ? v.words[0] : v.words[1]) : (w == 2 ? v.words[2] : v.words[3]);
  };
  if ((n & 2) != 0) {
    const int at = low ? n & 12 : from;
    const std::uint32_t both = word(at / 4);
    *reinterpret_cast<std::uint16_t*>(bytes + at) =
        static_cast<std::uint16_t>(low ? both : both >> 16);
  }
  if ((n & 4) != 0) {
    const int at = low ? n & 8 : 16 - (n & 12);
    *reinterpret_cast<std::uint32_t*>(bytes + at) = word(at / 4);
  }
  if ((n & 8) != 0) {
    *reinterpret_cast<std::uint64_t*>(bytes + (low ? 0 : 8)) =
        low ? v.words[0] | std::uint64_t{v.words[1]} << 32
            : v.words[2] | std::uint64_t{v.words[3]} << 32;
  }
  if (n == 16) {
    *static_cast<block16*>(to) = v;
  }
}

/// The elements of a 16-byte vector as the arithmetic's type.
template <class In>
__device__ inline arithmetic_t<In> element_of(const block16& v, int i) {
  if constexpr (std::is_same_v<In, float>) {
    return __uint_as_float(v.words[i]);
  } else if constexpr (std::is_same_v<In, double>) {
    return __hiloint2double(static_cast<int>(v.words[2 * i + 1]), static_cast<int>(v.words[2 * i]));
  } else {
    const std::uint32_t word = v.words[i / 2];
    if constexpr (std::is_same_v<In, bfloat16>) {
      return __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xffff0000U);
    } else {
      return widen(In::from_bits(static_cast<std::uint16_t>(i % 2 == 0 ? word : word >> 16)));
    }
  }
}

/// The same where i is not known when it is compiled.
template <class In>
__device__ inline arithmetic_t<In> element_at(const block16& v, int i) {
  if constexpr (sizeof(In) == 8) {
    return i == 0 ? element_of<In>(v, 0) : element_of<In>(v, 1);
  } else {
    constexpr int each = 4 / static_cast<int>(sizeof(In));
    const int w = i / each;
    const std::uint32_t even = (w & 2) == 0 ? v.words[0] : v.words[2];
    const std::uint32_t odd = (w & 2) == 0 ? v.words[1] : v.words[3];
    const std::uint32_t word = (w & 1) == 0 ? even : odd;
    const block16 repeated = {{word, word, word, word}};
    return each == 2 && i % 2 != 0 ? element_of<In>(repeated, 1) : element_of<In>(repeated, 0);
  }
}

template <class In>
__device__ inline void set_element(block16& v, int i, In x) {
  if constexpr (std::is_same_v<In, float>) {
    v.words[i] = __float_as_uint(x);
  } else if constexpr (std::is_same_v<In, double>) {
    v.words[2 * i] = static_cast<std::uint32_t>(__double2loint(x));
    v.words[2 * i + 1] = static_cast<std::uint32_t>(__double2hiint(x));
  } else {
    const auto bits = static_cast<std::uint32_t>(x.bits);
    std::uint32_t& word = v.words[i / 2];
    word = i % 2 == 0 ? (word & 0xffff0000U) | bits : (word & 0xffffU) | bits << 16;
  }
}

/// Element i of a vector as it is stored.
template <class Out>
__device__ inline Out stored_element(const block16& v, int i) {
  if constexpr (sizeof(Out) == 2) {
    const std::uint32_t word = v.words[i / 2];
    return Out::from_bits(static_cast<std::uint16_t>(i % 2 == 0 ? word : word >> 16));
  } else {
    return element_of<Out>(v, i);
  }
}

/// A vector of value(0), value(1), ..., rounded to Out.
template <class Out, class Value>
__device__ inline block16 packed(const Value& value) {
  block16 v;
  if constexpr (std::is_same_v<Out, half>) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v.words[i] = to_half_pair(value(2 * i), value(2 * i + 1));
    }
  } else if constexpr (std::is_same_v<Out, bfloat16>) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v.words[i] = to_bfloat16_pair(value(2 * i), value(2 * i + 1));
    }
  } else {
#pragma unroll
    for (int i = 0; i < vector_width<Out>; ++i) {
      set_element<Out>(v, i, value(i));
    }
  }
  return v;
}

/// The 16 bytes from byte `shift` of two vectors on, an even number below 16.
__device__ inline block16 joined(const block16& first, const block16& second, int shift) {
  std::uint32_t words[8];
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    words[w] = first.words[w];
    words[4 + w] = second.words[w];
  }
#pragma unroll
  for (int w = 0; w < 6; ++w) {
    words[w] = (shift & 8) != 0 ? words[w + 2] : words[w];
  }
#pragma unroll
  for (int w = 0; w < 5; ++w) {
    words[w] = (shift & 4) != 0 ? words[w + 1] : words[w];
  }
  block16 v;
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    v.words[w] = (shift & 2) != 0 ? words[w] >> 16 | words[w + 1] << 16 : words[w];
  }
  return v;
}

/// x in every element.
template <class Out>
__device__ inline block16 repeated(Out x) {
  block16 v{};
#pragma unroll
  for (int i = 0; i < vector_width<Out>; ++i) {
    set_element<Out>(v, i, x);
  }
  return v;
}

/// Writes those elements of a vector that are in [from, until), one by one.
template <class Out>
__device__ inline void store_singly(Out* to, const block16& v, int from, int until) {
#pragma unroll
  for (int i = 0; i < vector_width<Out>; ++i) {
    if (i >= from && i < until) {
      to[i] = stored_element<Out>(v, i);
    }
  }
}

/// The same by fewer stores; `to` is aligned to 16 bytes.
template <class Out>
__device__ inline void store_elements(Out* to, block16 v, int from, int until) {
  constexpr int each = vector_width<Out>;
  from = from > 0 ? from : 0;
  until = until < each ? until : each;
  if (from == 0 || until == each) {
    if (until > from) {
      constexpr int bytes = static_cast<int>(sizeof(Out));
      store_part(to, v, from * bytes, until * bytes);
    }
    return;
  }
  store_singly(to, v, from, until);
}

template <class In>
__device__ inline In minus_infinity() {
  if constexpr (std::is_same_v<In, half>) {
    return half::from_bits(0xfc00);
  } else if constexpr (std::is_same_v<In, bfloat16>) {
    return bfloat16::from_bits(0xff80);
  } else {
    return -infinity<In>;
  }
}

template <class Out>
__device__ inline Out canonical_nan() {
  return Out(std::numeric_limits<arithmetic_t<Out>>::quiet_NaN());
}

/// What an element outside a row's range counts as.
enum class outside : int { minus_infinity, zero };

/// Minus infinity in every element.
template <class In>
__device__ constexpr block16 no_elements() {
  if constexpr (std::is_same_v<In, double>) {
    return {{0, 0xfff00000U, 0, 0xfff00000U}};
  } else {
    constexpr std::uint32_t word = std::is_same_v<In, half>       ? 0xfc00fc00U
                                   : std::is_same_v<In, bfloat16> ? 0xff80ff80U
                                                                  : 0xff800000U;
    return {{word, word, word, word}};
  }
}

/// What elements outside a range count as, in every element.
template <class In, outside beyond = outside::minus_infinity>
__device__ constexpr block16 outside_elements() {
  if constexpr (beyond == outside::zero) {
    return {{0, 0, 0, 0}};
  } else {
    return no_elements<In>();
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
