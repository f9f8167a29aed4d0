// SPDX-License-Identifier: Apache-2.0
/// \file
/// The monoid on the device: `max` not yet scaled, `sum` of the exponentials in the frame of `max`.
#pragma once

#include "calls.hpp"
#include "exponential.hpp"

#include <softfold/max_sum.hpp>

#include <limits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class T>
inline constexpr T infinity = std::numeric_limits<T>::infinity();

/// What is done to an element before it is scaled.
template <class T>
__device__ inline T mapped(T x, element_map map) {
  if (map == element_map::negate) {
    return -x;
  }
  return map == element_map::zero && x > -infinity<T> ? T{0} : x;
}

/// x, with the canonical quiet NaN for every NaN.
template <class T>
__device__ inline T canonical(T x) {
  return x != x ? std::numeric_limits<T>::quiet_NaN() : x;
}

template <class T>
struct state {
  T max = -infinity<T>;
  T sum = 0;

  /// What `sum` is multiplied with to be relative to the frame of a maximum at least as large.
  __device__ T factor(T whole, T scale) const {
    if (max == whole) {
      return T{1};
    }
    const T top = scale * max;
    const T whole_top = scale * whole;
    // A sum is relative to the rounded scaled maximum if that is ordinary, else to the exact one.
    T below;
    if (frame<T>::is_ordinary(top)) {
      below = frame<T>::is_ordinary(whole_top) ? top - whole_top : fma(-scale, whole, top);
    } else {
      below = frame<T>::of(whole, scale).exponent(max);
    }
    return exponential<precision::exact>(below);
  }
};

/// max + log sum of the scaled row.
template <class T>
__device__ inline T logsumexp(const state<T>& s, T scale) {
  if (!isfinite(s.max)) {
    return s.max;
  }
  const T top = scale * s.max;
  return frame<T>::is_ordinary(top) ? top + log(s.sum) : fma(scale, s.max, log(s.sum));
}

/// Whether a scaled maximum is so large that what it was rounded by is no small factor of a sum.
template <class T>
__device__ inline bool is_far(T top) {
  constexpr T limit = sizeof(T) == 4 ? T(0x1p30) : T(0x1p59);
  return top >= limit || top <= -limit;
}

/// The public state: `max` scaled and rounded, `sum` relative to that number.
template <class T>
__device__ inline max_sum<T> to_public(const state<T>& s, T scale) {
  if (s.max == -infinity<T>) {
    return {-infinity<T>, T{0}};
  }
  const T top = scale * s.max;
  if (!isfinite(top)) {
    return {canonical(top), top != top ? canonical(top) : T{1}};
  }
  // Far from 0 the rounding of the maximum may be of any size: the sum stays relative to the exact
  // one, and a second pass rounds every element's product like the maximum's (see is_far).
  return {top,
          frame<T>::is_ordinary(top) || is_far(top) ? s.sum : s.sum * exp(fma(scale, s.max, -top))};
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
