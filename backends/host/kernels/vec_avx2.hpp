// SPDX-License-Identifier: Apache-2.0
/// \file
/// The vector type on AVX2, FMA and F16C. See vec_portable.hpp for what each function means.
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
  using mask = __m256;
  static constexpr int lanes = 8;
  static constexpr bool compresses = false;
  __m256 v;

  vec() = default;
  SOFTFOLD_INLINE vec(__m256 native) : v(native) {}
  SOFTFOLD_INLINE explicit vec(float x) : v(_mm256_set1_ps(x)) {}

  static SOFTFOLD_INLINE __m256i first(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static SOFTFOLD_INLINE __m256 widen(__m128i bf16) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bf16), 16));
  }
  // AVX2 has no masked 16-bit load or store: the few elements go by way of the stack.
  template <class T>
  static SOFTFOLD_INLINE __m128i load_some(const T* p, int n) {
    alignas(16) std::uint16_t some[8] = {};
    for (int i = 0; i < n; ++i) {
      some[i] = p[i].bits;
    }
    return _mm_load_si128(reinterpret_cast<const __m128i*>(some));
  }
  template <class T>
  static SOFTFOLD_INLINE void store_some(T* p, int n, __m128i bits) {
    alignas(16) std::uint16_t some[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(some), bits);
    for (int i = 0; i < n; ++i) {
      p[i].bits = some[i];
    }
  }
  static SOFTFOLD_INLINE vec keep_first(int n, __m256 x, vec rest) {
    return _mm256_blendv_ps(rest.v, x, _mm256_castsi256_ps(first(n)));
  }

  static SOFTFOLD_INLINE vec load(const float* p) { return _mm256_loadu_ps(p); }
  static SOFTFOLD_INLINE vec load_logarithms(const std::uint16_t* p) {
    const __m256 numbers = _mm256_cvtepi32_ps(
        _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
    return _mm256_cvtepi32_ps(_mm256_castps_si256(numbers));
  }
  static SOFTFOLD_INLINE vec load(const f16_bits* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static SOFTFOLD_INLINE vec load(const bf16_bits* p) {
    return widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static SOFTFOLD_INLINE vec load(const float* p, int n, vec rest) {
    return keep_first(n, _mm256_maskload_ps(p, first(n)), rest);
  }
  static SOFTFOLD_INLINE vec load(const f16_bits* p, int n, vec rest) {
    return keep_first(n, _mm256_cvtph_ps(load_some(p, n)), rest);
  }
  static SOFTFOLD_INLINE vec load(const bf16_bits* p, int n, vec rest) {
    return keep_first(n, widen(load_some(p, n)), rest);
  }

  SOFTFOLD_INLINE __m128i to_f16() const {
    return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  SOFTFOLD_INLINE __m128i to_bf16() const {
    const __m256i u = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_srli_epi32(
        _mm256_add_epi32(_mm256_add_epi32(u, odd), _mm256_set1_epi32(0x7fff)), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
  }

  SOFTFOLD_INLINE void store(float* p) const { _mm256_storeu_ps(p, v); }
  SOFTFOLD_INLINE void store(f16_bits* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), to_f16());
  }
  SOFTFOLD_INLINE void store(bf16_bits* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), to_bf16());
  }
  SOFTFOLD_INLINE void store(float* p, int n) const { _mm256_maskstore_ps(p, first(n), v); }
  SOFTFOLD_INLINE void store(f16_bits* p, int n) const { store_some(p, n, to_f16()); }
  SOFTFOLD_INLINE void store(bf16_bits* p, int n) const { store_some(p, n, to_bf16()); }
  SOFTFOLD_INLINE void stream(float* p) const { _mm256_stream_ps(p, v); }
  SOFTFOLD_INLINE void stream(f16_bits* p) const {
    _mm_stream_si128(reinterpret_cast<__m128i*>(p), to_f16());
  }
  SOFTFOLD_INLINE void stream(bf16_bits* p) const {
    _mm_stream_si128(reinterpret_cast<__m128i*>(p), to_bf16());
  }

  SOFTFOLD_INLINE float first_lane() const { return _mm256_cvtss_f32(v); }
  SOFTFOLD_INLINE float reduce_max() const {
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
  }
  SOFTFOLD_INLINE float reduce_min() const {
    __m128 x = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_min_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_min_ss(x, _mm_movehdup_ps(x)));
  }
  SOFTFOLD_INLINE float reduce_add() const {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
  }

  friend SOFTFOLD_INLINE vec operator+(vec a, vec b) { return _mm256_add_ps(a.v, b.v); }
  friend SOFTFOLD_INLINE vec operator-(vec a, vec b) { return _mm256_sub_ps(a.v, b.v); }
  friend SOFTFOLD_INLINE vec operator*(vec a, vec b) { return _mm256_mul_ps(a.v, b.v); }
  friend SOFTFOLD_INLINE vec operator/(vec a, vec b) { return _mm256_div_ps(a.v, b.v); }
  friend SOFTFOLD_INLINE vec fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a.v, b.v, c.v); }
  friend SOFTFOLD_INLINE vec product_error(vec a, vec b, vec product) {
    return _mm256_fmsub_ps(a.v, b.v, product.v);
  }
  friend SOFTFOLD_INLINE vec max(vec a, vec b) { return _mm256_max_ps(a.v, b.v); }
  friend SOFTFOLD_INLINE vec min(vec a, vec b) { return _mm256_min_ps(a.v, b.v); }
  /// 2^n for the multiple n of 1/table_size in z's low bits: the fraction from the table, by
  /// the lowest bits, the integer added to the exponent. The lowest bits, which the shift moves
  /// into the mantissa, are taken off the table's entries beforehand.
  static constexpr bool fma_rounds_once = true;
  static constexpr int table_size = 8;
  friend SOFTFOLD_INLINE vec table_power(vec z) {
    static constexpr auto entries = core::exponential_table_bits<table_size>();
    const vec table = load(reinterpret_cast<const float*>(entries.bits));
    const __m256i fraction =
        _mm256_castps_si256(_mm256_permutevar8x32_ps(table.v, _mm256_castps_si256(z.v)));
    return _mm256_castsi256_ps(
        _mm256_add_epi32(fraction, _mm256_slli_epi32(_mm256_castps_si256(z.v), 20)));
  }

  friend SOFTFOLD_INLINE mask equal(vec a, vec b) { return _mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ); }
  friend SOFTFOLD_INLINE mask greater(vec a, vec b) { return _mm256_cmp_ps(a.v, b.v, _CMP_GT_OQ); }
  friend SOFTFOLD_INLINE mask unordered(vec a, vec b) {
    return _mm256_cmp_ps(a.v, b.v, _CMP_UNORD_Q);
  }
  friend SOFTFOLD_INLINE mask not_at_most(vec a, vec b) {
    return _mm256_cmp_ps(a.v, b.v, _CMP_NLE_UQ);
  }
  static SOFTFOLD_INLINE vec select(mask m, vec a, vec b) { return _mm256_blendv_ps(b.v, a.v, m); }
  static SOFTFOLD_INLINE mask either(mask a, mask b) { return _mm256_or_ps(a, b); }
  static SOFTFOLD_INLINE mask none() { return _mm256_setzero_ps(); }
  static SOFTFOLD_INLINE unsigned bits(mask m) {
    return static_cast<unsigned>(_mm256_movemask_ps(m));
  }
};

template <>
struct vec<double> {
  using element = double;
  using mask = __m256d;
  static constexpr bool fma_rounds_once = true;
  static constexpr int table_size = 0;
  static constexpr int lanes = 4;
  __m256d v;

  vec() = default;
  SOFTFOLD_INLINE vec(__m256d native) : v(native) {}
  SOFTFOLD_INLINE explicit vec(double x) : v(_mm256_set1_pd(x)) {}

  static SOFTFOLD_INLINE __m256i first(int n) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
  }

  static SOFTFOLD_INLINE vec load(const double* p) { return _mm256_loadu_pd(p); }
  static SOFTFOLD_INLINE vec load(const float* p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
  static SOFTFOLD_INLINE vec load_logarithms(const std::uint16_t* p) {
    const __m128 numbers =
        _mm_cvtepi32_ps(_mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
    return _mm256_cvtepi32_pd(_mm_castps_si128(numbers));
  }
  static SOFTFOLD_INLINE vec load(const double* p, int n, vec rest) {
    return _mm256_blendv_pd(rest.v, _mm256_maskload_pd(p, first(n)), _mm256_castsi256_pd(first(n)));
  }
  SOFTFOLD_INLINE void store(double* p) const { _mm256_storeu_pd(p, v); }
  SOFTFOLD_INLINE void store(double* p, int n) const { _mm256_maskstore_pd(p, first(n), v); }
  SOFTFOLD_INLINE void stream(double* p) const { _mm256_stream_pd(p, v); }

  SOFTFOLD_INLINE double first_lane() const { return _mm256_cvtsd_f64(v); }
  SOFTFOLD_INLINE double reduce_max() const {
    const __m128d x = _mm_max_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_max_sd(x, _mm_unpackhi_pd(x, x)));
  }
  SOFTFOLD_INLINE double reduce_min() const {
    const __m128d x = _mm_min_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_min_sd(x, _mm_unpackhi_pd(x, x)));
  }
  SOFTFOLD_INLINE double reduce_add() const {
    const __m128d x = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(x, _mm_unpackhi_pd(x, x)));
  }

  friend SOFTFOLD_INLINE vec operator+(vec a, vec b) { return _mm256_add_pd(a.v, b.v); }
  friend SOFTFOLD_INLINE vec operator-(vec a, vec b) { return _mm256_sub_pd(a.v, b.v); }
  friend SOFTFOLD_INLINE vec operator*(vec a, vec b) { return _mm256_mul_pd(a.v, b.v); }
  friend SOFTFOLD_INLINE vec operator/(vec a, vec b) { return _mm256_div_pd(a.v, b.v); }
  friend SOFTFOLD_INLINE vec fma(vec a, vec b, vec c) { return _mm256_fmadd_pd(a.v, b.v, c.v); }
  friend SOFTFOLD_INLINE vec product_error(vec a, vec b, vec product) {
    return _mm256_fmsub_pd(a.v, b.v, product.v);
  }
  friend SOFTFOLD_INLINE vec max(vec a, vec b) { return _mm256_max_pd(a.v, b.v); }
  friend SOFTFOLD_INLINE vec min(vec a, vec b) { return _mm256_min_pd(a.v, b.v); }
  friend SOFTFOLD_INLINE vec low_bits_to_exponent(vec z) {
    return _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_castpd_si256(z.v), 52));
  }

  friend SOFTFOLD_INLINE mask equal(vec a, vec b) { return _mm256_cmp_pd(a.v, b.v, _CMP_EQ_OQ); }
  friend SOFTFOLD_INLINE mask greater(vec a, vec b) { return _mm256_cmp_pd(a.v, b.v, _CMP_GT_OQ); }
  friend SOFTFOLD_INLINE mask unordered(vec a, vec b) {
    return _mm256_cmp_pd(a.v, b.v, _CMP_UNORD_Q);
  }
  friend SOFTFOLD_INLINE mask not_at_most(vec a, vec b) {
    return _mm256_cmp_pd(a.v, b.v, _CMP_NLE_UQ);
  }
  static SOFTFOLD_INLINE vec select(mask m, vec a, vec b) { return _mm256_blendv_pd(b.v, a.v, m); }
  static SOFTFOLD_INLINE mask either(mask a, mask b) { return _mm256_or_pd(a, b); }
  static SOFTFOLD_INLINE mask none() { return _mm256_setzero_pd(); }
  static SOFTFOLD_INLINE unsigned bits(mask m) {
    return static_cast<unsigned>(_mm256_movemask_pd(m));
  }
};

typedef std::uint64_t key_vector __attribute__((vector_size(32)));

SOFTFOLD_INLINE key_vector multiply_low_halves(key_vector a, key_vector b) {
  return reinterpret_cast<key_vector>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}

SOFTFOLD_INLINE key_vector shifted_left(key_vector k, key_vector by) {
  return reinterpret_cast<key_vector>(
      _mm256_sllv_epi64(reinterpret_cast<__m256i>(k), reinterpret_cast<__m256i>(by)));
}

SOFTFOLD_INLINE key_vector shifted_right(key_vector k, key_vector by) {
  return reinterpret_cast<key_vector>(
      _mm256_srlv_epi64(reinterpret_cast<__m256i>(k), reinterpret_cast<__m256i>(by)));
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
