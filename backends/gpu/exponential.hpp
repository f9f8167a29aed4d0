// SPDX-License-Identifier: Apache-2.0
/// \file
/// The exponential of a scaled element below its maximum.
#pragma once

#include "device.hpp"

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// What an operation needs of exp: `exact` keeps the bound of f32 results, `fast` that of results
/// rounded to 16 bits.
enum class precision { exact, fast };

/// e^t for t <= 0, -infinity included; NaN gives some number.
///
/// exact: 2^hi, hi = t log2 e rounded, is corrected to first order by what hi lost: relative error
/// below 5 u. fast: the error of hi stays, |t| u.
template <precision p>
__device__ inline float exponential(float t) {
  constexpr float log2_e = 0x1.715476p+0F;
  if constexpr (p == precision::fast) {
    return fast_exp2(t * log2_e);
  } else {
    constexpr float ln2_high = 0x1.62e430p-1F;
    constexpr float ln2_low = -0x1.05c610p-29F;
    t = fmaxf(t, -200.0F);  // keeps infinity - infinity away
    const float high = t * log2_e;
    const float lost = fmaf(-high, ln2_low, fmaf(-high, ln2_high, t));
    const float e = fast_exp2(high);
    return fmaf(e, lost, e);
  }
}

template <precision p>
__device__ inline double exponential(double t) {
  return exp(t);
}

/// How an element becomes the exponent of its exponential, t = scale (x - from) - top: `from` is
/// the row's maximum where its scaled value would overflow, else 0, and `top` the scaled maximum.
/// What `top` was rounded by shifts every t alike, which no result depends on.
template <class T>
struct frame {
  T scale = 1;
  T from = 0;
  T top = 0;

  /// For a row with a finite maximum; for others any frame, exp of -infinity still 0.
  __device__ static frame of(T max, T scale) {
    const T top = scale * max;
    if (isfinite(top)) {
      return {scale, 0, top};
    }
    return {scale, isfinite(max) ? max : T{0}, 0};
  }
  __device__ T exponent(T x) const { return fma(x - from, scale, -top); }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
