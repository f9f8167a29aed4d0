// SPDX-License-Identifier: Apache-2.0
/// \file
/// Vectors of pairs of bf16, on AVX-512 with AVX512_BF16. Their elements' bits in a mask are in the
/// order of memory: two for each lane.
#pragma once

#include <backends/host/kernels/vec_avx512.hpp>

#include <backends/host/kernels/difference_exponential.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// A lane is a pair of bf16, the first in its low bits.
struct pairs {
  using V = vec<float>;
  __m512i v;

  static SOFTFOLD_INLINE pairs load(const std::uint32_t* p) { return {_mm512_loadu_si512(p)}; }
  /// The first of a row's elements, at least one; 0 past them.
  static SOFTFOLD_INLINE pairs load(const bf16_bits* p, int elements) {
    return {_mm512_maskz_loadu_epi16(elements >= 32 ? ~0U : (1U << elements) - 1U, p)};
  }
  /// The first elements of two rows, at least one, side by side; 0 past them and for no row.
  static SOFTFOLD_INLINE pairs load(const bf16_bits* first, const bf16_bits* second, int elements) {
    const auto columns = [&](const bf16_bits* row) {
      return _mm512_cvtepu16_epi32(elements >= V::lanes
                                       ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row))
                                       : _mm256_maskz_loadu_epi16(V::first(elements), row));
    };
    const __m512i low = columns(first);
    return {second == nullptr ? low : _mm512_or_si512(low, _mm512_slli_epi32(columns(second), 16))};
  }
  static SOFTFOLD_INLINE pairs all(std::uint32_t pair) {
    return {_mm512_set1_epi32(static_cast<int>(pair))};
  }
  static SOFTFOLD_INLINE pairs of_bits(V x) { return {_mm512_castps_si512(x.v)}; }
  /// The numbers of two vectors one after the other, rounded to nearest even.
  static SOFTFOLD_INLINE pairs rounded(V low, V high) {
    return {reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high.v, low.v))};
  }
  SOFTFOLD_INLINE void store(std::uint32_t* p) const { _mm512_storeu_si512(p, v); }

  [[nodiscard]] SOFTFOLD_INLINE V bits() const { return _mm512_castsi512_ps(v); }
  [[nodiscard]] SOFTFOLD_INLINE V first() const {
    return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
  }
  [[nodiscard]] SOFTFOLD_INLINE V second() const {
    return _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32(-0x10000)));
  }
  /// Of the elements that are subnormal.
  [[nodiscard]] SOFTFOLD_INLINE std::uint32_t subnormal() const {
    return _mm512_mask_test_epi16_mask(_mm512_testn_epi16_mask(v, _mm512_set1_epi16(0x7f80)), v,
                                       _mm512_set1_epi16(0x007f));
  }
  /// Of the elements other than 0 below 2^-64, and of those that are not finite.
  [[nodiscard]] SOFTFOLD_INLINE std::uint32_t extreme() const {
    constexpr std::int16_t least = (127 - 64) << 7;
    const __m512i magnitude = _mm512_and_si512(v, _mm512_set1_epi16(0x7fff));
    return _mm512_mask_cmpge_epu16_mask(_mm512_test_epi16_mask(magnitude, magnitude),
                                        _mm512_sub_epi16(magnitude, _mm512_set1_epi16(least)),
                                        _mm512_set1_epi16(0x7f80 - least));
  }
  /// 0 for these elements.
  [[nodiscard]] SOFTFOLD_INLINE pairs without(std::uint32_t elements) const {
    return {_mm512_maskz_mov_epi16(~elements, v)};
  }
  /// The lanes that have one of their elements' bits set.
  static SOFTFOLD_INLINE V::mask lanes_of(std::uint32_t elements) {
    return elements == 0
               ? V::mask{0}
               : _mm512_test_epi32_mask(_mm512_movm_epi16(elements), _mm512_movm_epi16(elements));
  }
};

SOFTFOLD_INLINE vec<float> power_of_32nds(vec<float> z) {
  const auto* const table = reinterpret_cast<const float*>(powers_of_32nds_bits.bits);
  const __m512i n = _mm512_castps_si512(z.v);
  const __m512 fraction =
      _mm512_permutex2var_ps(_mm512_load_ps(table), n, _mm512_load_ps(table + 16));
  return _mm512_castsi512_ps(
      _mm512_add_epi32(_mm512_castps_si512(fraction), _mm512_slli_epi32(n, 18)));
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
