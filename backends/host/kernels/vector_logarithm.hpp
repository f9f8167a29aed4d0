// SPDX-License-Identifier: Apache-2.0
/// \file
/// The logarithms of sums that are relative to a power of two, a vector at a time. Included by one
/// instruction set's translation unit after its vector type.
#pragma once

#include <backends/host/kernels/memory_types.hpp>

#include <core/exponential.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// log(sum 2^origin) for normal sums: within 1 u of the result and 1 u of 1.
/// The polynomial is that of Cephes' logf.
SOFTFOLD_INLINE vec<float> log_of_scaled(vec<float> sum, float origin) {
  using V = vec<float>;
  typedef std::int32_t integers __attribute__((vector_size(4 * vec<float>::lanes)));
  typedef std::uint32_t words __attribute__((vector_size(4 * vec<float>::lanes)));
  using constants = core::exponential<float>;
  constexpr std::uint32_t half_root_bits = 0x3f3504f3;
  constexpr float c[] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                         -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                         2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
  const auto bits = __builtin_bit_cast(words, sum);  // of any sum; unused where it is not normal
  const integers exponent = __builtin_bit_cast(integers, bits - half_root_bits) >> 23;
  const V t = __builtin_bit_cast(V, bits - (__builtin_bit_cast(words, exponent) << 23)) -
              V(1.0f);  // in [-0.30, 0.42)
  V n;
  n.v = __builtin_convertvector(exponent, decltype(n.v));
  n = n + V(origin);
  V p(c[0]);
#pragma GCC unroll 8
  for (int i = 1; i < 9; ++i) {
    p = fma(p, t, V(c[i]));
  }
  const V square = t * t;
  V rest = fma(p * t, square, n * V(constants::ln2_low));
  rest = fma(square, V(-0.5f), rest);
  return fma(n, V(constants::ln2_high), t + rest);
}

/// n of x = 2^n f, f from sqrt(1/2) to sqrt(2).
SOFTFOLD_INLINE vec<double> exponent_of(vec<double> x, vec<double>& f) {
  typedef std::int64_t integers __attribute__((vector_size(8 * vec<double>::lanes)));
  typedef std::uint64_t words __attribute__((vector_size(8 * vec<double>::lanes)));
  constexpr std::uint64_t half_root_bits = 0x3fe6a09e667f3bcdU;
  const auto bits = __builtin_bit_cast(words, x);
  const integers exponent = __builtin_bit_cast(integers, bits - half_root_bits) >> 52;
  f = __builtin_bit_cast(vec<double>, bits - (__builtin_bit_cast(words, exponent) << 52));
  vec<double> n;
  n.v = __builtin_convertvector(exponent, decltype(n.v));
  return n;
}

/// log(sum 2^origin) for normal sums, by log f = 2 artanh((f - 1) / (f + 1)) with f in
/// [0.70, 1.42): the series' first term left out is 6e-19.
SOFTFOLD_INLINE vec<double> log_of_scaled(vec<double> sum, double origin) {
  using V = vec<double>;
  using constants = core::exponential<double>;
  constexpr int terms = 10;
  V f;
  const V n = exponent_of(sum, f) + V(origin);
  const V above = f - V(1.0);
  const V below = f + V(1.0);
  V s;
  s.v = above.v / below.v;
  const V square = s * s;
  V p(1.0 / (2 * terms + 1));
#pragma GCC unroll 10
  for (int k = terms - 1; k >= 1; --k) {
    p = fma(p, square, V(1.0 / (2 * k + 1)));
  }
  const V twice = s + s;
  const V rest = fma(p * square, twice, n * V(constants::ln2_low));
  return fma(n, V(constants::ln2_high), twice + rest);
}

/// core::sampling::natural_log of each.
SOFTFOLD_INLINE vec<double> natural_logs(vec<double> x) {
  using V = vec<double>;
  using constants = core::exponential<double>;
  V f;
  const V n = exponent_of(x, f);
  V t;
  t.v = (f - V(1.0)).v / (f + V(1.0)).v;
  const V square = t * t;
  V p(2.0 / 21);
#pragma GCC unroll 10
  for (int c = 19; c >= 3; c -= 2) {
    p = fused(p, square, V(2.0 / c));
  }
  p = fused(p, square, V(2.0));
  const V low = fused(n, V(constants::ln2_low), V(0.0));
  return fused(n, V(constants::ln2_high), fused(t, p, low));
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
