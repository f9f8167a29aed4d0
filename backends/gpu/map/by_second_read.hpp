// SPDX-License-Identifier: Apache-2.0
/// \file
/// Plan chunks, second_pass::reads: rows whose states, or whose chunks' states, are known are read
/// again.
#pragma once

#include <gpu/group/combine.hpp>
#include <gpu/row/tile.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// What is known of rows: `count` states of each. None, if the job's are given.
template <class State>
struct row_states_known {
  const State* states = nullptr;
  int count = 1;
};

template <int lanes, class Job, int V>
__global__ void __launch_bounds__(chunk_threads)
    map_chunk(const Job job, int chunks, const row_states_known<typename Job::state> known) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  const auto& fold = job.fold;
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(chunks);
  const std::int64_t chunk = blockIdx.x % static_cast<unsigned>(chunks);
  const auto* const x = fold.source.row(row);
  constexpr int vectors = chunk_vectors_of(Job::fold_type::matrices);
  const auto range = fold.source.range(row, chunk * vectors, vectors);
  auto own = fold.template hold<V>(row, range, static_cast<int>(threadIdx.x),
                                   static_cast<int>(blockDim.x));
  own.load_long();
  fold.edit(own);
  const typename Job::result result =
      job.is_given() ? job.given_result(row)
                     : job.result_of(combine_states<lanes>(known.states + row * known.count,
                                                           known.count, fold.states()));
  job.template write<false, true>(own, job.y + row * job.y_stride + (range.base - x), result, {});
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
