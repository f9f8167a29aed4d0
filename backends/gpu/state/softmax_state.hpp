// SPDX-License-Identifier: Apache-2.0
/// \file
/// The softmax's state on the device: `max` not yet scaled, `sum` of the exponentials in the frame
/// of `max`.
#pragma once

#include <gpu/state/exponential.hpp>

#include <core/monoid.hpp>
#include <softfold/max_sum.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class T>
struct softmax_state {
  T max = -infinity<T>;
  T sum = 0;

  /// What `sum` is multiplied with to be relative to the frame of a maximum at least as large.
  template <precision p = precision::exact>
  __device__ T factor(T whole, T scale) const {
    if (max == whole) {
      return T{1};
    }
    const T top = scale * max;
    const T whole_top = scale * whole;
    // A sum is relative to the rounded scaled maximum if that is ordinary, else to the exact one.
    T below;
    if (p == precision::compensated && frame<T>::is_ordinary(top) &&
        frame<T>::is_ordinary(whole_top)) {
      return exponential_of_difference(top, whole_top);
    }
    if (frame<T>::is_ordinary(top)) {
      below = frame<T>::is_ordinary(whole_top) ? top - whole_top : fma(-scale, whole, top);
    } else {
      below = frame<T>::of(whole, scale).exponent(max);
    }
    return exponential<precision::exact>(below);
  }
};

/// The states of rows of one scale. The anchor is the maximum, the payload the sum: a group
/// combines states by a maximum over their anchors, one rebase of each payload, and a sum.
template <class T>
struct softmax_monoid {
  using value_type = softmax_state<T>;

  T scale;

  __device__ static value_type identity() { return {}; }
  __device__ static T anchor(const value_type& s) { return s.max; }
  __device__ static T larger(T a, T b) { return max_or_nan(a, b); }
  /// The payload relative to an anchor that is not below the state's.
  __device__ T rebased(const value_type& s, T anchor) const {
    return s.sum * s.factor(anchor, scale);
  }
  __device__ static value_type state_of(T anchor, T payload) { return {anchor, payload}; }
  __device__ value_type combine(const value_type& a, const value_type& b) const {
    const T whole = larger(a.max, b.max);
    return {whole, rebased(a, whole) + rebased(b, whole)};
  }
};

static_assert(core::monoid<softmax_monoid<float>> && core::monoid<softmax_monoid<double>>);

/// max + log sum of the scaled row.
template <class T>
__device__ inline T logsumexp(const softmax_state<T>& s, T scale) {
  const T top = scale * s.max;
  if (!isfinite(top)) {
    return top;
  }
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
__device__ inline max_sum<T> to_public(const softmax_state<T>& s, T scale) {
  const T top = scale * s.max + T{0};  // which of two zeros is the larger depends on their order
  if (top == -infinity<T>) {
    return {-infinity<T>, T{0}};
  }
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
