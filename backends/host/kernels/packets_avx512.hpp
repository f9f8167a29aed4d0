// SPDX-License-Identifier: Apache-2.0
/// \file
/// Sums of packets of 16-bit elements, on AVX-512 BW: elements are put in order while 32 of them
/// are in a vector, so that those of f64 only have to be added.
#pragma once

#include <backends/host/kernels/vec_avx512.hpp>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// The elements of eight packets: vectors of those that are number 0 of their packets, then those
/// that are number 4; 2, 6; 1, 5; 3, 7. The packets stand as sums_of_packets() leaves them.
template <class T>
struct packet_elements {
  using words = std::uint16_t __attribute__((vector_size(64)));
  __m512 v[4];

  static SOFTFOLD_INLINE packet_elements load(const T* x) {
    words first, second;
    __builtin_memcpy(&first, x, sizeof first);
    __builtin_memcpy(&second, x + 32, sizeof second);
    packet_elements result;
    put(in_order<0, 2>(first, second, all_words()), result.v[0], result.v[1]);
    put(in_order<1, 3>(first, second, all_words()), result.v[2], result.v[3]);
    return result;
  }

 private:
  using all_words = std::make_integer_sequence<int, 32>;

  /// Of vectors of elements `a` and a + 4, and of b and b + 4, half i.
  static constexpr int place(int number, int i) {
    return 8 * (i % 2 * 4 + i % 8 / 2) + number + i / 8 * 4;
  }
  template <int a, int b, int... i>
  static SOFTFOLD_INLINE __m512i in_order(const words& first, const words& second,
                                          std::integer_sequence<int, i...>) {
    if constexpr (std::is_same_v<T, bf16_bits>) {  // the bits of f32 are the upper halves of words
      return reinterpret_cast<__m512i>(__builtin_shufflevector(
          first, second, (i % 2 == 1 ? place(a, i / 2) : place(b, i / 2))...));
    } else {
      return reinterpret_cast<__m512i>(
          __builtin_shufflevector(first, second, (i < 16 ? place(a, i) : place(b, i - 16))...));
    }
  }
  static SOFTFOLD_INLINE void put(__m512i ordered, __m512& a, __m512& b) {
    if constexpr (std::is_same_v<T, bf16_bits>) {
      a = _mm512_castsi512_ps(
          _mm512_and_si512(ordered, _mm512_set1_epi32(static_cast<int>(0xffff0000U))));
      b = _mm512_castsi512_ps(_mm512_slli_epi32(ordered, 16));
    } else {
      a = _mm512_cvtph_ps(_mm512_castsi512_si256(ordered));
      b = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(ordered, 1));
    }
  }
};

/// Whether products of two bf16 are not what f64 has: f32 has their 16 bits, but not all exponents.
/// A zero is if a factor is one; infinities and NaN are left to the other way.
SOFTFOLD_INLINE bool are_inexact(const __m512 (&y)[4], const __m512 (&dy)[4],
                                 const __m512 (&products)[4]) {
  constexpr int zeros = 0x06;
  constexpr int limits = 0xb9;  // NaN, infinities, what is below the normal numbers
  unsigned suspect = 0;
  for (const __m512& each : products) {
    suspect |= _mm512_fpclass_ps_mask(each, zeros | limits);
  }
  if (suspect == 0) [[likely]] {
    return false;
  }
  unsigned inexact = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned zero = _mm512_fpclass_ps_mask(products[i], zeros);
    const unsigned factors =
        _mm512_fpclass_ps_mask(y[i], zeros) | unsigned{_mm512_fpclass_ps_mask(dy[i], zeros)};
    inexact |= _mm512_fpclass_ps_mask(products[i], limits) | (zero & ~factors);
  }
  return inexact != 0;
}

/// The sums of eight packets' products, or of dy alone, in the order of sums_of_packets(). False if
/// f32 has not all products.
template <bool products, class T>
requires(sizeof(T) == 2) SOFTFOLD_INLINE
    bool ordered_sums(const T* y, const T* dy, vec<double>& sums) {
  auto terms = packet_elements<T>::load(dy);
  if constexpr (products) {
    const auto factors = packet_elements<T>::load(y);
    __m512 both[4];
    for (int i = 0; i < 4; ++i) {
      both[i] = _mm512_mul_ps(factors.v[i], terms.v[i]);
    }
    if constexpr (std::is_same_v<T, bf16_bits>) {
      if (are_inexact(factors.v, terms.v, both)) {
        return false;
      }
    }
    for (int i = 0; i < 4; ++i) {
      terms.v[i] = both[i];
    }
  }
  __m512d halves[4];
  for (int i = 0; i < 4; ++i) {
    halves[i] = _mm512_add_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(terms.v[i])),
                              _mm512_cvtps_pd(_mm512_extractf32x8_ps(terms.v[i], 1)));
  }
  sums = _mm512_add_pd(_mm512_add_pd(halves[0], halves[1]), _mm512_add_pd(halves[2], halves[3]));
  return true;
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
