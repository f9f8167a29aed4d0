// SPDX-License-Identifier: Apache-2.0
/// \file
/// The exponential of a scaled element below its maximum.
#pragma once

#include <gpu/contract.hpp>

#include <core/two_sum.hpp>

#include <limits>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class T>
inline constexpr T infinity = std::numeric_limits<T>::infinity();

/// x, with the canonical quiet NaN for every NaN.
template <class T>
__device__ inline T canonical(T x) {
  return x != x ? std::numeric_limits<T>::quiet_NaN() : x;
}

/// What an operation needs of exp: `exact` for elements of f32 results. `fast` for those rounded to
/// 16 bits, and for sums: there the error of each term counts by its share, and the mean of |t|
/// with the shares as weights is at most ln n, which the bound's log2 n u covers. `compensated`: as
/// exact, and what the exponent was rounded by is made up for, where it is no difference to the
/// row's own maximum.
enum class precision { exact, fast, compensated };

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

/// e^(a - b + more) for a <= b, whose difference may round, and a small `more`.
template <class T>
__device__ inline T exponential_of_difference(T a, T b, T more = 0) {
  const auto t = core::two_sum<T>::of(a, -b);
  const T e = exponential<precision::exact>(t.value);
  return e == 0 ? e : fma(e, t.lost + more, e);
}

/// How an element becomes the exponent of its exponential: t = (x a - b) c.
///
/// Where the row's scaled maximum is of ordinary size, a is the scale, b the scaled maximum,
/// rounded, and c 1: one rounding. What b was rounded by shifts every t alike, which no result
/// depends on. Where it is large, that shift might be anything, and the difference to the maximum
/// comes first; halved where it might overflow.
template <class T>
struct frame {
  T a = 1;
  T b = 0;
  T c = 1;

  /// Scaled maxima up to here are rounded by less than 1.
  static constexpr T ordinary = sizeof(T) == 4 ? T(0x1p22) : T(0x1p51);

  __device__ static bool is_ordinary(T top) { return top <= ordinary && top >= -ordinary; }

  /// For a row with a finite maximum; for others any frame in which exp of -infinity is 0.
  __device__ static frame of(T max, T scale) {
    const T top = scale * max;
    if (is_ordinary(top)) {
      return {scale, top, T{1}};
    }
    if (!isfinite(max)) {
      return {scale, T{0}, T{1}};
    }
    constexpr T largest = std::numeric_limits<T>::max();
    if (max > largest / 2 || max < -largest / 2) {
      return {T(0.5), max / 2, scale > largest / 2 ? largest : 2 * scale};
    }
    return {T{1}, max, scale};
  }
  __device__ T exponent(T x) const { return fma(x, a, -b) * c; }
};

/// The exponentials of a row's elements, e^t with t of a frame; to be multiplied with `factor`.
template <precision p, class T>
struct frame_exponential {
  frame<T> f;
  static constexpr T factor = 1;

  __device__ T operator()(T x) const {
    if constexpr (p == precision::compensated) {
      if (f.c == 1) {
        const T product = x * f.a;
        return exponential_of_difference(product, f.b, fma(x, f.a, -product));
      }
    }
    return exponential<p>(f.exponent(x));
  }
};

/// The same for ordinary frames by one multiplication and one exp2. The product with log2 e is
/// rounded differently from a x, and the maximum differently from b: `factor` makes up for both
/// near the maximum, and further below it the relative error is that of a rounded factor, |t| u.
struct binary_exponential {
  float a;
  float b;
  float factor;

  __device__ explicit binary_exponential(const frame<float>& f) {
    constexpr float log2_e = 0x1.715476p+0F;
    a = f.a * log2_e;
    const float top = f.b * fast_reciprocal(f.a);  // the maximum, near enough
    b = a * top;
    factor = fast_exp2(fmaf(log2_e, fmaf(f.a, top, -f.b), -fmaf(a, top, -b)));
  }
  __device__ static bool is_right_for(const frame<float>& f) {
    return f.c == 1 && f.a > 0x1p-100F && f.a < 0x1p100F && frame<float>::is_ordinary(f.b);
  }
  __device__ float operator()(float x) const { return fast_exp2(fmaf(x, a, -b)); }
};

/// Calls body with the quickest exponential that has the precision.
template <precision p, class T, class Body>
__device__ inline void with_exponential(const frame<T>& f, const Body& body) {
  if constexpr (p == precision::fast && std::is_same_v<T, float>) {
    if (binary_exponential::is_right_for(f)) {
      body(binary_exponential(f));
      return;
    }
  }
  body(frame_exponential<p, T>{f});
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
