// SPDX-License-Identifier: Apache-2.0
/// \file
/// Totals of states with exact sums.
#pragma once

#include <gpu/reproducible/totals.hpp>

#include <core/exact_state.hpp>

#include <softfold/max_sum.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// A thread for each row.
template <class A>
__global__ void __launch_bounds__(reader_threads)
    totals_of_states(const exact_max_sum<A>* states, std::int64_t count, A scale,
                     core::reproducible::row_total<A>* totals) {
  const std::int64_t i = std::int64_t{blockIdx.x} * reader_threads + threadIdx.x;
  if (i < count) {
    totals[i] = core::reproducible::total_of(scale, states[i]);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
