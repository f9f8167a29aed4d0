// SPDX-License-Identifier: Apache-2.0
/// \file
/// The vector type by the compiler's own 16-byte vectors: the baseline of every processor (SSE2,
/// NEON). The other vec_*.hpp have the same members; what they mean is said here.
#pragma once

#include <backends/host/kernels/memory_types.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

template <class A>
struct lane_types;
template <>
struct lane_types<float> {
  typedef float native __attribute__((vector_size(16)));
  typedef std::int32_t mask __attribute__((vector_size(16)));
  typedef std::uint32_t bits __attribute__((vector_size(16)));
};
template <>
struct lane_types<double> {
  typedef double native __attribute__((vector_size(16)));
  typedef std::int64_t mask __attribute__((vector_size(16)));
  typedef std::uint64_t bits __attribute__((vector_size(16)));
};

/// `lanes` elements of the arithmetic type A.
template <class A>
struct vec {
  using element = A;
#if defined(__ARM_FEATURE_FMA) || defined(__FMA__)
  static constexpr bool fma_rounds_once = true;
#else
  static constexpr bool fma_rounds_once = false;
#endif
  static constexpr bool compresses = false;  ///< whether there is compress, as with AVX-512
  static constexpr int table_size = 0;       ///< see exponential_of; no table here
  static constexpr int lanes = 16 / static_cast<int>(sizeof(A));
  using native = typename lane_types<A>::native;
  using mask = typename lane_types<A>::mask;
  native v;

  vec() = default;
  SOFTFOLD_INLINE vec(native x) : v(x) {}
  SOFTFOLD_INLINE explicit vec(A x) : v(x - native{}) {}  // -0 stays so

  static SOFTFOLD_INLINE A widen(A x) { return x; }
  static SOFTFOLD_INLINE A widen(bf16_bits x) {
    return __builtin_bit_cast(float, std::uint32_t{x.bits} << 16);
  }
  static SOFTFOLD_INLINE A widen(f16_bits x) {
    const std::uint32_t sign = (x.bits & 0x8000u) << 16;
    const std::uint32_t magnitude = x.bits & 0x7fffu;
    const float scaled = __builtin_bit_cast(float, magnitude << 13) * 0x1p112f;
    const std::uint32_t finite = __builtin_bit_cast(std::uint32_t, scaled);
    const std::uint32_t special = magnitude << 13 | 0x7f800000u;
    return __builtin_bit_cast(float, sign | (magnitude >= 0x7c00u ? special : finite));
  }
  static SOFTFOLD_INLINE void narrow(A x, A* y) { *y = x; }
  static SOFTFOLD_INLINE void narrow(float x, bf16_bits* y) {
    const auto u = __builtin_bit_cast(std::uint32_t, x);
    y->bits = static_cast<std::uint16_t>((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
  }
  static SOFTFOLD_INLINE void narrow(float x, f16_bits* y) {
    const auto u = __builtin_bit_cast(std::uint32_t, x);
    const std::uint32_t magnitude = u & 0x7fffffffu;
    const std::uint32_t tiny =
        __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, magnitude) + 0.5f) -
        0x3f000000u;
    const std::uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    const std::uint32_t rounded = magnitude > 0x7f800000u    ? 0x7e00u
                                  : magnitude >= 0x477ff000u ? 0x7c00u
                                  : magnitude < 0x38800000u  ? tiny
                                                             : normal;
    y->bits = static_cast<std::uint16_t>((u >> 16 & 0x8000u) | rounded);
  }

  /// `lanes` elements, converted exactly.
  template <class T>
  static SOFTFOLD_INLINE vec load(const T* p) {
    vec x;
    for (int i = 0; i < lanes; ++i) {
      x.v[i] = widen(p[i]);
    }
    return x;
  }
  /// 2^23 (127 + log2 of `lanes` integers) or up to 0.087 2^23 less, 0 for 0: the bits of floats,
  /// whose mantissas stand in for the logarithms of what they are.
  static SOFTFOLD_INLINE vec load_logarithms(const std::uint16_t* p) {
    vec x;
    for (int i = 0; i < lanes; ++i) {
      x.v[i] = static_cast<A>(__builtin_bit_cast(std::int32_t, static_cast<float>(p[i])));
    }
    return x;
  }
  static SOFTFOLD_INLINE vec load(const A* p) {
    vec x;
    __builtin_memcpy(&x.v, p, sizeof x.v);
    return x;
  }
  /// The first n < lanes elements, and the lanes after them from `rest`. Reads nothing else.
  template <class T>
  static SOFTFOLD_INLINE vec load(const T* p, int n, vec rest) {
    for (int i = 0; i < n; ++i) {
      rest.v[i] = widen(p[i]);
    }
    return rest;
  }
  /// Stores, rounding to nearest even. No NaN but the canonical one is ever stored.
  template <class T>
  SOFTFOLD_INLINE void store(T* p) const {
    for (int i = 0; i < lanes; ++i) {
      narrow(v[i], p + i);
    }
  }
  SOFTFOLD_INLINE void store(A* p) const { __builtin_memcpy(p, &v, sizeof v); }
  /// The first n <= lanes elements.
  template <class T>
  SOFTFOLD_INLINE void store(T* p, int n) const {
    for (int i = 0; i < n; ++i) {
      narrow(v[i], p + i);
    }
  }
  /// A store past the caches where the processor has one; p is aligned to the stored bytes.
  template <class T>
  SOFTFOLD_INLINE void stream(T* p) const {
    store(p);
  }

  SOFTFOLD_INLINE A first_lane() const { return v[0]; }
  SOFTFOLD_INLINE A reduce_max() const {
    A r = v[0];
    for (int i = 1; i < lanes; ++i) {
      r = v[i] > r ? v[i] : r;
    }
    return r;
  }
  SOFTFOLD_INLINE A reduce_min() const {
    A r = v[0];
    for (int i = 1; i < lanes; ++i) {
      r = v[i] < r ? v[i] : r;
    }
    return r;
  }
  SOFTFOLD_INLINE A reduce_add() const {
    if constexpr (lanes == 4) {
      return (v[0] + v[2]) + (v[1] + v[3]);
    } else {
      return v[0] + v[1];
    }
  }

  friend SOFTFOLD_INLINE vec operator+(vec a, vec b) { return a.v + b.v; }
  friend SOFTFOLD_INLINE vec operator-(vec a, vec b) { return a.v - b.v; }
  friend SOFTFOLD_INLINE vec operator*(vec a, vec b) { return a.v * b.v; }
  friend SOFTFOLD_INLINE vec operator/(vec a, vec b) { return a.v / b.v; }
  /// a * b + c, rounded once where the processor can.
  friend SOFTFOLD_INLINE vec fma(vec a, vec b, vec c) {
    if constexpr (fma_rounds_once) {
      vec r;
      for (int i = 0; i < lanes; ++i) {
        if constexpr (sizeof(A) == 4) {
          r.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]);
        } else {
          r.v[i] = __builtin_fma(a.v[i], b.v[i], c.v[i]);
        }
      }
      return r;
    } else {
      return a.v * b.v + c.v;
    }
  }
  /// a * b - product exactly, for product = a * b rounded.
  friend SOFTFOLD_INLINE vec product_error(vec a, vec b, vec product) {
    vec r;
    for (int i = 0; i < lanes; ++i) {
      if constexpr (sizeof(A) == 4) {
        r.v[i] = static_cast<float>(static_cast<double>(a.v[i]) * static_cast<double>(b.v[i]) -
                                    static_cast<double>(product.v[i]));
      } else {
        r.v[i] = __builtin_fma(a.v[i], b.v[i], -product.v[i]);
      }
    }
    return r;
  }
  /// The larger; b if either is NaN.
  friend SOFTFOLD_INLINE vec max(vec a, vec b) { return a.v > b.v ? a.v : b.v; }
  /// The smaller; b if either is NaN.
  friend SOFTFOLD_INLINE vec min(vec a, vec b) { return a.v < b.v ? a.v : b.v; }
  /// The low bits of each lane, moved to where the exponent stands.
  friend SOFTFOLD_INLINE vec low_bits_to_exponent(vec z) {
    constexpr int mantissa_bits = sizeof(A) == 4 ? 23 : 52;
    using bits = typename lane_types<A>::bits;
    return __builtin_bit_cast(native, __builtin_bit_cast(bits, z.v) << mantissa_bits);
  }

  friend SOFTFOLD_INLINE mask equal(vec a, vec b) { return a.v == b.v; }
  friend SOFTFOLD_INLINE mask greater(vec a, vec b) { return a.v > b.v; }
  friend SOFTFOLD_INLINE mask unordered(vec a, vec b) { return (a.v != a.v) | (b.v != b.v); }
  /// a > b, or either is NaN.
  friend SOFTFOLD_INLINE mask not_at_most(vec a, vec b) { return ~(a.v <= b.v); }
  /// a where the mask is set, else b.
  static SOFTFOLD_INLINE vec select(mask m, vec a, vec b) { return m ? a.v : b.v; }
  static SOFTFOLD_INLINE mask either(mask a, mask b) { return a | b; }
  static SOFTFOLD_INLINE mask none() { return mask{}; }
  /// One bit a lane.
  static SOFTFOLD_INLINE unsigned bits(mask m) {
    unsigned r = 0;
    for (int i = 0; i < lanes; ++i) {
      r |= m[i] != 0 ? 1u << i : 0u;
    }
    return r;
  }
};

/// A vector of 64-bit keys; one key where vectors cannot compare them.
using key_vector = std::uint64_t;

/// The 64-bit products of the lower 32 bits of each lane.
SOFTFOLD_INLINE key_vector multiply_low_halves(key_vector a, key_vector b) {
  return (a & 0xffffffffU) * (b & 0xffffffffU);
}

/// k 2^by, 0 from 64 on.
SOFTFOLD_INLINE key_vector shifted_left(key_vector k, key_vector by) {
  return by < 64 ? k << by : 0;
}

SOFTFOLD_INLINE key_vector shifted_right(key_vector k, key_vector by) {
  return by < 64 ? k >> by : 0;
}

SOFTFOLD_INLINE void prefetch(const void* p) { __builtin_prefetch(p); }
/// The same, as far as the second-level cache.
SOFTFOLD_INLINE void prefetch_l2(const void* p) { __builtin_prefetch(p, 0, 2); }
/// To the first-level cache, for a write.
SOFTFOLD_INLINE void prefetch_to_write(const void* p) { __builtin_prefetch(p, 1); }
/// Orders streamed stores before what other threads read next.
SOFTFOLD_INLINE void end_of_stream() {}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
