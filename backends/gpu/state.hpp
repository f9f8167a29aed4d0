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
  __device__ T factor(T whole_max, const frame<T>& whole) const {
    if (max == whole_max) {
      return T{1};
    }
    const T below = whole.from == 0 ? whole.scale * max - whole.top : whole.exponent(max);
    return exponential<precision::exact>(below);
  }
};

template <class T>
__device__ inline state<T> combine(const state<T>& a, const state<T>& b, T scale) {
  const T max = max_or_nan(a.max, b.max);
  const frame<T> whole = frame<T>::of(max, scale);
  return {max, a.sum * a.factor(max, whole) + b.sum * b.factor(max, whole)};
}

/// max + log sum of the scaled row.
template <class T>
__device__ inline T logsumexp(const state<T>& s, T scale) {
  if (!isfinite(s.max)) {
    return s.max;
  }
  const T top = scale * s.max;
  return isfinite(top) ? top + log(s.sum) : top;
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
  return {top, s.sum};
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
