// SPDX-License-Identifier: Apache-2.0
/// \file
/// Second pass together: few rows that are too long for clusters: the blocks of all chunks run
/// at once, hold them in their registers and exchange their states. One read, one write, one
/// launch.
#pragma once

#include "exchange.hpp"

#include <gpu/map/run.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <int lanes, bool plain, class Job>
__global__ void __launch_bounds__(chunk_threads,
                                  resident_chunks(sizeof(typename Job::fold_type::element),
                                                  Job::fold_type::matrices))
    map_chunks_together(const Job job, int chunks, exchange_memory* memory) {
  using state = typename Job::state;
  __shared__ fold_memory<state> warps;
  __shared__ shared_array<state, most_chunks_read_by_all> states;  // registers are scarce
  __shared__ shared_array<typename Job::result, 1> result;
  const state_exchange<typename Job::fold_type::monoid> exchange(memory->words, memory->readers);
  const auto& fold = job.fold;
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(chunks);
  const unsigned chunk = blockIdx.x % static_cast<unsigned>(chunks);
  const auto* const x = fold.source.row(row);
  constexpr int matrices = Job::fold_type::matrices;
  constexpr int vectors = chunk_vectors_of(matrices);
  const auto range = fold.source.range(row, std::int64_t{chunk} * vectors, vectors,
                                       plain ? known_to_be_aligned : vector_bytes);
  auto own = fold.template hold<chunk_vectors_each_of(matrices), plain>(
      row, range, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  own.load_long();
  fold.edit(own);
  const state warp = fold.template fold_part<lanes, precision::fast, false>(own);
  if (threadIdx.x % lanes == 0) {
    warps.warps[threadIdx.x / lanes] = warp;
  }
  __syncthreads();
  if (threadIdx.x < lanes) {
    const state s = combine_states<lanes>(warps.warps.data(), chunk_threads / lanes, fold.states());
    if (threadIdx.x == 0) {
      exchange.publish(blockIdx.x, s);
    }
    const state whole = exchange.template wait_for_row<lanes>(
        row, chunks, fold.states(),
        [&](int j) -> state& { return states[j * lanes + static_cast<int>(threadIdx.x)]; });
    if (threadIdx.x == 0) {
      result[0] = job.result_of(whole);
    }
  }
  __syncthreads();
  job.template write<false, true>(own, job.y + row * job.y_stride + (range.base - x),
                                  result[0].folded(), {});
  if (threadIdx.x < lanes) {
    exchange.template leave<lanes>(row, chunks);
  }
}

template <int lanes, class Job>
bool launch_chunks_together(const Job& job, const row_plan& plan, exchange_memory* exchange,
                            stream_handle stream) {
  return with_plain_long(job, [&](auto plain) {
    return launch_together(stream, map_chunks_together<lanes, plain(), Job>,
                           job.fold.source.rows * plan.chunks, chunk_threads, 0, job, plan.chunks,
                           exchange);
  });
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
