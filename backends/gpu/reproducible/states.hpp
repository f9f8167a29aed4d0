// SPDX-License-Identifier: Apache-2.0
/// \file
/// States with exact sums: what the kernels of totals make of parts of rows, and totals of states.
#pragma once

#include <gpu/reproducible/totals.hpp>

#include <core/exact_state.hpp>

#include <softfold/max_sum.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// As total_results.
template <class A>
struct state_results {
  using result = exact_max_sum<A>;

  exact_max_sum<A>* states;

  __device__ static core::reproducible::frame<A> frame_of(A scale, A largest) {
    return core::reproducible::state_frame(scale, largest);
  }
  __device__ static result of(A scale, A largest, const core::reproducible::exact_sum<A>& sum) {
    return core::reproducible::state_of(scale, largest, sum);
  }
  template <class In>
  __device__ void write(std::int64_t row, const result& state) const {
    states[row] = state;
  }
};

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
