// SPDX-License-Identifier: Apache-2.0
/// \file
/// What scores become: weights, the exponentials of their differences to a maximum.
#pragma once

#include <gpu/state/exponential.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// e^t for t <= 0; NaN stays.
template <class A>
__device__ inline A exponential_or_nan(A t) {
  return t != t ? t : exponential<precision::exact>(t);
}

/// The weight of a score among those with the maximum `top`, which passes NaN over.
template <class A>
__device__ inline A weight_of(A score, A top) {
  if (top == infinity<A>) {
    return score != score ? score : score == infinity<A> ? A{1} : A{0};
  }
  return exponential_or_nan(score - (top == -infinity<A> ? A{0} : top));
}

/// What sums with the maximum `before` are multiplied with where it is `top` instead.
template <class A>
__device__ inline A rebasing_factor(A before, A top) {
  return before == top ? A{1} : before == -infinity<A> ? A{0} : exponential_or_nan(before - top);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
