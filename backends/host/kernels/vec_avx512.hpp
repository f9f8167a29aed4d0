// SPDX-License-Identifier: Apache-2.0
/// \file
/// The vector type on AVX-512 F, BW, DQ, VL. See vec_portable.hpp for what each function means.
#pragma once

#include <backends/host/kernels/memory_types.hpp>

#include <core/exponential.hpp>

#include <immintrin.h>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

template <class A>
struct vec;

template <>
struct vec<float> {
  using element = float;
  using mask = __mmask16;
  static constexpr int lanes = 16;
  __m512 v;

  vec() = default;
  SOFTFOLD_INLINE vec(__m512 native) : v(native) {}
  SOFTFOLD_INLINE explicit vec(float x) : v(_mm512_set1_ps(x)) {}

  static SOFTFOLD_INLINE mask first(int n) { return static_cast<mask>((1u << n) - 1u); }
  static SOFTFOLD_INLINE __m512 widen(__m256i bf16) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
  }

  static SOFTFOLD_INLINE vec load(const float* p) { return _mm512_loadu_ps(p); }
  static SOFTFOLD_INLINE vec load(const f16_bits* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static SOFTFOLD_INLINE vec load(const bf16_bits* p) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static SOFTFOLD_INLINE vec load(const float* p, int n, vec rest) {
    return _mm512_mask_loadu_ps(rest.v, first(n), p);
  }
  static SOFTFOLD_INLINE vec load_logarithms(const std::uint16_t* p) {
    const __m512 numbers = _mm512_cvtepi32_ps(
        _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
    return _mm512_cvtepi32_ps(_mm512_castps_si512(numbers));
  }
  static SOFTFOLD_INLINE vec load(const f16_bits* p, int n, vec rest) {
    return _mm512_mask_cvtph_ps(rest.v, first(n), _mm256_maskz_loadu_epi16(first(n), p));
  }
  static SOFTFOLD_INLINE vec load(const bf16_bits* p, int n, vec rest) {
    return _mm512_mask_mov_ps(rest.v, first(n), widen(_mm256_maskz_loadu_epi16(first(n), p)));
  }

  SOFTFOLD_INLINE __m256i to_f16() const {
    return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  SOFTFOLD_INLINE __m256i to_bf16() const {
    const __m512i u = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(u, odd), _mm512_set1_epi32(0x7fff));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
  }

  SOFTFOLD_INLINE void store(float* p) const { _mm512_storeu_ps(p, v); }
  SOFTFOLD_INLINE void store(f16_bits* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_f16());
  }
  SOFTFOLD_INLINE void store(bf16_bits* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_bf16());
  }
  SOFTFOLD_INLINE void store(float* p, int n) const { _mm512_mask_storeu_ps(p, first(n), v); }
  SOFTFOLD_INLINE void store(f16_bits* p, int n) const {
    _mm256_mask_storeu_epi16(p, first(n), to_f16());
  }
  SOFTFOLD_INLINE void store(bf16_bits* p, int n) const {
    _mm256_mask_storeu_epi16(p, first(n), to_bf16());
  }
  SOFTFOLD_INLINE void stream(float* p) const { _mm512_stream_ps(p, v); }
  SOFTFOLD_INLINE void stream(f16_bits* p) const {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(p), to_f16());
  }
  SOFTFOLD_INLINE void stream(bf16_bits* p) const {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(p), to_bf16());
  }

  SOFTFOLD_INLINE float first_lane() const { return _mm512_cvtss_f32(v); }
  SOFTFOLD_INLINE float reduce_max() const { return _mm512_reduce_max_ps(v); }
  SOFTFOLD_INLINE float reduce_min() const { return _mm512_reduce_min_ps(v); }
  SOFTFOLD_INLINE float reduce_add() const { return _mm512_reduce_add_ps(v); }

  friend SOFTFOLD_INLINE vec operator+(vec a, vec b) { return _mm512_add_ps(a.v, b.v); }
  friend SOFTFOLD_INLINE vec operator-(vec a, vec b) { return _mm512_sub_ps(a.v, b.v); }
  friend SOFTFOLD_INLINE vec operator*(vec a, vec b) { return _mm512_mul_ps(a.v, b.v); }
  friend SOFTFOLD_INLINE vec operator/(vec a, vec b) { return _mm512_div_ps(a.v, b.v); }
  friend SOFTFOLD_INLINE vec fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a.v, b.v, c.v); }
  friend SOFTFOLD_INLINE vec product_error(vec a, vec b, vec product) {
    return _mm512_fmsub_ps(a.v, b.v, product.v);
  }
  /// p 2^n for whole n, rounded once; vectors that lack it do without.
  friend SOFTFOLD_INLINE vec times_power(vec p, vec n) { return _mm512_scalef_ps(p.v, n.v); }
  friend SOFTFOLD_INLINE vec max(vec a, vec b) { return _mm512_max_ps(a.v, b.v); }
  friend SOFTFOLD_INLINE vec min(vec a, vec b) { return _mm512_min_ps(a.v, b.v); }
  /// 2^n for the multiple n of 1/table_size in z's low bits: the fraction from the table, by
  /// the lowest bits, the integer added to the exponent. The lowest bits, which the shift moves
  /// into the mantissa, are taken off the table's entries beforehand.
  static constexpr bool fma_rounds_once = true;
  static constexpr int table_size = 16;
  friend SOFTFOLD_INLINE vec table_power(vec z) {
    static constexpr auto entries = core::exponential_table_bits<table_size>();
    const vec table = load(reinterpret_cast<const float*>(entries.bits));
    const __m512i fraction =
        _mm512_castps_si512(_mm512_permutexvar_ps(_mm512_castps_si512(z.v), table.v));
    return _mm512_castsi512_ps(
        _mm512_add_epi32(fraction, _mm512_slli_epi32(_mm512_castps_si512(z.v), 19)));
  }

  friend SOFTFOLD_INLINE mask equal(vec a, vec b) {
    return _mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ);
  }
  friend SOFTFOLD_INLINE mask greater(vec a, vec b) {
    return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ);
  }
  friend SOFTFOLD_INLINE mask unordered(vec a, vec b) {
    return _mm512_cmp_ps_mask(a.v, b.v, _CMP_UNORD_Q);
  }
  friend SOFTFOLD_INLINE mask not_at_most(vec a, vec b) {
    return _mm512_cmp_ps_mask(a.v, b.v, _CMP_NLE_UQ);
  }
  static SOFTFOLD_INLINE vec select(mask m, vec a, vec b) {
    return _mm512_mask_blend_ps(m, b.v, a.v);
  }
  static SOFTFOLD_INLINE mask either(mask a, mask b) { return static_cast<mask>(a | b); }
  static SOFTFOLD_INLINE mask none() { return 0; }
  static SOFTFOLD_INLINE unsigned bits(mask m) { return m; }

  /// Moves the lanes of v whose bits are set in m, and `first` + their numbers, to the front of
  /// `values` and `columns`, which have room for a vector each. Returns how many they are.
  static constexpr bool compresses = true;
  static SOFTFOLD_INLINE int compress(mask m, vec v, std::int32_t first, float* values,
                                      std::int32_t* columns) {
    const __m512i numbers =
        _mm512_add_epi32(_mm512_set1_epi32(first),
                         _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    _mm512_storeu_ps(values, _mm512_maskz_compress_ps(m, v.v));
    _mm512_storeu_si512(columns, _mm512_maskz_compress_epi32(m, numbers));
    return __builtin_popcount(m);
  }
};

template <>
struct vec<double> {
  using element = double;
  using mask = __mmask8;
  static constexpr bool fma_rounds_once = true;
  static constexpr int table_size = 0;
  static constexpr int lanes = 8;
  __m512d v;

  vec() = default;
  SOFTFOLD_INLINE vec(__m512d native) : v(native) {}
  SOFTFOLD_INLINE explicit vec(double x) : v(_mm512_set1_pd(x)) {}

  static SOFTFOLD_INLINE mask first(int n) { return static_cast<mask>((1u << n) - 1u); }

  static SOFTFOLD_INLINE vec load(const double* p) { return _mm512_loadu_pd(p); }
  static SOFTFOLD_INLINE vec load(const float* p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
  static SOFTFOLD_INLINE vec load_logarithms(const std::uint16_t* p) {
    const __m256 numbers = _mm256_cvtepi32_ps(
        _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
    return _mm512_cvtepi32_pd(_mm256_castps_si256(numbers));
  }
  static SOFTFOLD_INLINE vec load(const double* p, int n, vec rest) {
    return _mm512_mask_loadu_pd(rest.v, first(n), p);
  }
  SOFTFOLD_INLINE void store(double* p) const { _mm512_storeu_pd(p, v); }
  SOFTFOLD_INLINE void store(double* p, int n) const { _mm512_mask_storeu_pd(p, first(n), v); }
  SOFTFOLD_INLINE void stream(double* p) const { _mm512_stream_pd(p, v); }

  SOFTFOLD_INLINE double first_lane() const { return _mm512_cvtsd_f64(v); }
  SOFTFOLD_INLINE double reduce_max() const { return _mm512_reduce_max_pd(v); }
  SOFTFOLD_INLINE double reduce_min() const { return _mm512_reduce_min_pd(v); }
  SOFTFOLD_INLINE double reduce_add() const { return _mm512_reduce_add_pd(v); }

  friend SOFTFOLD_INLINE vec operator+(vec a, vec b) { return _mm512_add_pd(a.v, b.v); }
  friend SOFTFOLD_INLINE vec operator-(vec a, vec b) { return _mm512_sub_pd(a.v, b.v); }
  friend SOFTFOLD_INLINE vec operator*(vec a, vec b) { return _mm512_mul_pd(a.v, b.v); }
  friend SOFTFOLD_INLINE vec operator/(vec a, vec b) { return _mm512_div_pd(a.v, b.v); }
  friend SOFTFOLD_INLINE vec fma(vec a, vec b, vec c) { return _mm512_fmadd_pd(a.v, b.v, c.v); }
  friend SOFTFOLD_INLINE vec product_error(vec a, vec b, vec product) {
    return _mm512_fmsub_pd(a.v, b.v, product.v);
  }
  friend SOFTFOLD_INLINE vec times_power(vec p, vec n) { return _mm512_scalef_pd(p.v, n.v); }
  friend SOFTFOLD_INLINE vec max(vec a, vec b) { return _mm512_max_pd(a.v, b.v); }
  friend SOFTFOLD_INLINE vec min(vec a, vec b) { return _mm512_min_pd(a.v, b.v); }
  friend SOFTFOLD_INLINE vec low_bits_to_exponent(vec z) {
    return _mm512_castsi512_pd(_mm512_slli_epi64(_mm512_castpd_si512(z.v), 52));
  }

  friend SOFTFOLD_INLINE mask equal(vec a, vec b) {
    return _mm512_cmp_pd_mask(a.v, b.v, _CMP_EQ_OQ);
  }
  friend SOFTFOLD_INLINE mask greater(vec a, vec b) {
    return _mm512_cmp_pd_mask(a.v, b.v, _CMP_GT_OQ);
  }
  friend SOFTFOLD_INLINE mask unordered(vec a, vec b) {
    return _mm512_cmp_pd_mask(a.v, b.v, _CMP_UNORD_Q);
  }
  friend SOFTFOLD_INLINE mask not_at_most(vec a, vec b) {
    return _mm512_cmp_pd_mask(a.v, b.v, _CMP_NLE_UQ);
  }
  static SOFTFOLD_INLINE vec select(mask m, vec a, vec b) {
    return _mm512_mask_blend_pd(m, b.v, a.v);
  }
  static SOFTFOLD_INLINE mask either(mask a, mask b) { return static_cast<mask>(a | b); }
  static SOFTFOLD_INLINE mask none() { return 0; }
  static SOFTFOLD_INLINE unsigned bits(mask m) { return m; }
};

typedef std::uint64_t key_vector __attribute__((vector_size(64)));

SOFTFOLD_INLINE key_vector multiply_low_halves(key_vector a, key_vector b) {
  return reinterpret_cast<key_vector>(
      _mm512_mul_epu32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

SOFTFOLD_INLINE key_vector shifted_left(key_vector k, key_vector by) {
  return reinterpret_cast<key_vector>(
      _mm512_sllv_epi64(reinterpret_cast<__m512i>(k), reinterpret_cast<__m512i>(by)));
}

SOFTFOLD_INLINE key_vector shifted_right(key_vector k, key_vector by) {
  return reinterpret_cast<key_vector>(
      _mm512_srlv_epi64(reinterpret_cast<__m512i>(k), reinterpret_cast<__m512i>(by)));
}

SOFTFOLD_INLINE void prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}
SOFTFOLD_INLINE void prefetch_l2(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
}
SOFTFOLD_INLINE void prefetch_to_write(const void* p) { __builtin_prefetch(p, 1); }
SOFTFOLD_INLINE void end_of_stream() { _mm_sfence(); }

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
