// SPDX-License-Identifier: Apache-2.0
/// \file
/// softmax and log-softmax of rows that a cluster of thread blocks holds in its registers: one read
/// and one write of rows longer than a block can hold.
#pragma once

#include "hopper.hpp"

#include <gpu/rows.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

inline constexpr int most_cluster_blocks = 16;

#if SOFTFOLD_GPU_HOPPER

template <int lanes, map_operation op, class In, class Out, int V>
__global__ void __launch_bounds__(sizeof(In) != 4 && V == 8 ? 512 : 1024)
    map_row_by_cluster(const map_arguments<In, Out> call, int blocks, int part) {
  using T = arithmetic_t<In>;
  constexpr bool keep = tile<In, V>::keeps && op == map_operation::softmax;
  __shared__ transfer_barrier exchange;
  __shared__ state<T> block_states[most_cluster_blocks];
  __shared__ fold_memory<T> memory;

  if (threadIdx.x == 0) {
    exchange.initialise(1);
    exchange.arrive_and_expect(static_cast<unsigned>(blocks * sizeof(state<T>)));
  }
  cluster::arrive();  // the barrier is ready; waited for before anything is sent
  const int rank = cluster::rank();
  const std::int64_t row = blockIdx.x / blocks;
  const In* const x = call.x + row * call.x_stride;
  const vector_range<In> range(x, call.cols, call.memory(), std::int64_t{rank} * part, part);
  tile<In, V> own(range, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  own.load();
  own.apply(call.map);
  const state<T> warp = fold_tile<lanes, precision_for<Out>, keep>(own, call.scale, lanes);
  const state<T> block = combine_over_block<lanes>(warp, call.scale, memory);
  cluster::wait();
  if (threadIdx.x < static_cast<unsigned>(blocks)) {
    exchange.send(&block_states[rank], block, static_cast<int>(threadIdx.x));
  }
  exchange.wait();
  const state<T> whole = combine_states<lanes>(block_states, blocks, call.scale);
  write_tile<op, keep>(own, call.y + row * call.y_stride + (range.base - x), call,
                       row_result<T>::of(whole, call.scale), warp.max);
}

#else

template <int lanes, map_operation op, class In, class Out, int V>
__global__ void map_row_by_cluster(const map_arguments<In, Out>, int, int) {}

#endif

template <int lanes, map_operation op, class In, class Out>
void launch_cluster_rows(const map_arguments<In, Out>& call, const row_plan& plan,
                         stream_handle stream) {
  if (plan.vectors == 4) {
    launch_clusters(stream, map_row_by_cluster<lanes, op, In, Out, 4>, call.rows, plan.blocks,
                    plan.threads, call, plan.blocks, plan.part);
  } else {
    launch_clusters(stream, map_row_by_cluster<lanes, op, In, Out, 8>, call.rows, plan.blocks,
                    plan.threads, call, plan.blocks, plan.part);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
