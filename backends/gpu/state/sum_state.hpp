// SPDX-License-Identifier: Apache-2.0
/// \file
/// A sum as a row's state, which needs no anchor: the gradients'.
#pragma once

#include <gpu/contract.hpp>

#include <core/monoid.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

struct no_anchor {};

template <class T>
struct sum_monoid {
  using value_type = T;

  __device__ static value_type identity() { return 0; }
  __device__ static no_anchor anchor(value_type) { return {}; }
  __device__ static no_anchor larger(no_anchor, no_anchor) { return {}; }
  __device__ static T rebased(value_type s, no_anchor) { return s; }
  __device__ static value_type state_of(no_anchor, T payload) { return payload; }
  __device__ static value_type combine(value_type a, value_type b) { return a + b; }
};

static_assert(core::monoid<sum_monoid<float>> && core::monoid<sum_monoid<double>>);

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
