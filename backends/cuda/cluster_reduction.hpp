// SPDX-License-Identifier: Apache-2.0
/// \file
/// Reductions of rows of a few chunks by clusters: one launch, where chunks by a grid need another
/// for their states.
#pragma once

#include "cluster_memory.hpp"

#include <gpu/reduce/run.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

#if SOFTFOLD_GPU_HOPPER

/// What a row's chunks come to, by a cluster, a block for each: the first combines their states,
/// the same bits as by a kernel of its own.
template <int lanes, class Fold>
__global__ void __launch_bounds__(chunk_threads)
    reduce_clustered_chunks(const Fold fold, int chunks, const typename Fold::results results) {
  using state = typename Fold::state;
  constexpr int vectors = chunk_vectors_of(Fold::matrices);
  __shared__ cluster_memory<state> states;
  __shared__ fold_memory<state> memory;
  const std::int64_t row = cluster::number();
  const int rank = cluster::rank();
  if (rank == 0 && threadIdx.x == 0) {
    states.arrived.initialise(1);
    states.arrived.arrive_and_expect(static_cast<unsigned>(chunks * sizeof(state)));
  }
  cluster::arrive();
  auto own = fold.template hold<chunk_vectors_each_of(Fold::matrices)>(
      row, fold.source.range(row, std::int64_t{rank} * vectors, vectors),
      static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  own.template load_long<true>();
  fold.edit(own);
  const state chunk = combine_over_block<lanes>(
      fold.template fold_part<lanes, precision::fast, false>(own), fold.states(), memory);
  cluster::wait();
  if (threadIdx.x == 0) {
    states.arrived.send(&states.blocks[rank], chunk, 0);
  }
  if (rank != 0 || threadIdx.x >= lanes) {
    return;
  }
  states.arrived.wait_for_cluster(0);
  const state whole = combine_states<lanes>(states.blocks.data(), chunks, fold.states());
  if (threadIdx.x == 0) {
    results.write(fold.states(), whole, row);
  }
}

#else

template <int lanes, class Fold>
__global__ void reduce_clustered_chunks(const Fold, int, const typename Fold::results) {}

#endif

template <int lanes, class Fold>
void launch_clustered_reduction(const Fold& fold, const row_plan& plan,
                                const typename Fold::results& results, stream_handle stream) {
  launch_clusters(stream, reduce_clustered_chunks<lanes, Fold>, fold.source.rows, plan.blocks,
                  chunk_threads, 0, fold, plan.chunks, results);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
