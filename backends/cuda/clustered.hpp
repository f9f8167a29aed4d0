// SPDX-License-Identifier: Apache-2.0
/// \file
/// softmax and log-softmax of rows that are too long for one block's registers: the blocks of a
/// cluster hold a part each, and send each other their states. One read and one write of each row.
#pragma once

#include "hopper.hpp"

#include <gpu/rows.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

inline constexpr int most_cluster_blocks = 16;

#if SOFTFOLD_GPU_HOPPER

/// Shared memory in which a cluster's blocks exchange their states, once.
template <class T>
struct cluster_memory {
  transfer_barrier arrived;
  alignas(16) state<T> blocks[most_cluster_blocks];
};

/// The combination of the states of a cluster's blocks, by the first warp of each, which has its
/// block's state. Nothing is ordered but the states, so that stores under way need not end first.
/// `short_code`: see combine_up_to_lanes; it takes a few registers more, which the kernels that are
/// not plain do not have.
template <int lanes, bool short_code, class T>
__device__ inline state<T> combine_over_cluster(const state<T>& block, T scale, int blocks,
                                                cluster_memory<T>& memory) {
  if (threadIdx.x == 0) {
    memory.arrived.arrive_and_expect(static_cast<unsigned>(blocks * sizeof(state<T>)));
  }
  if (threadIdx.x < static_cast<unsigned>(blocks)) {
    memory.arrived.send(&memory.blocks[cluster::rank()], block, static_cast<int>(threadIdx.x));
  }
  memory.arrived.wait_for_cluster(0);
  return combine_up_to_lanes<lanes, short_code>(memory.blocks, blocks, scale);
}

/// A row by a cluster. No block has to wait for the others at its end: what is sent to it has come
/// when it leaves combine_over_cluster.
template <int lanes, map_operation op, bool plain, class In, class Out, int V>
__global__ void __launch_bounds__(cluster_threads, sizeof(In) == 8 ? 2 : 4)
    map_row_by_cluster(const map_arguments<In, Out> call, int blocks, int part) {
  using T = arithmetic_t<In>;
  constexpr bool keep = tile<In, V>::keeps && op == map_operation::softmax;
  __shared__ cluster_memory<T> states;
  __shared__ fold_memory<T> memory;
  __shared__ shared_array<row_result<T>, 1> result;
  if (threadIdx.x == 0) {
    states.arrived.initialise(1);
  }
  cluster::arrive();
  const std::int64_t row = cluster::number();
  const In* const x = call.x + row * call.x_stride;
  const vector_range<In> range(x, call.cols, call.memory, std::int64_t{cluster::rank()} * part,
                               part, plain ? known_to_be_aligned : sector_bytes);
  int column = static_cast<int>(range.base - x);  // of the part
  if constexpr (!keep) {
    forget_origin(column);  // or the registers that the elements leave would hold its factors
  }
  tile<In, V, plain> own(range, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  own.load_long();
  own.apply(call.map);
  const state<T> warp = fold_part<lanes, precision_for<Out>, keep>(own, call.scale);
  if (threadIdx.x % lanes == 0) {
    memory.warps[threadIdx.x / lanes] = warp;
  }
  cluster::wait();
  __syncthreads();
  // One warp combines: if all did, they would take the other blocks' instructions, in waiting, too.
  if (threadIdx.x < lanes) {
    const state<T> block = combine_up_to_lanes<lanes, plain>(
        memory.warps.data(), static_cast<int>(blockDim.x) / lanes, call.scale);
    const state<T> whole = combine_over_cluster<lanes, plain>(block, call.scale, blocks, states);
    if (threadIdx.x == 0) {
      result[0] = row_result<T>::template of<op>(whole, call.scale);
    }
  }
  __syncthreads();
  const In* const base = keep ? range.base : x + column;
  prefetch_successor(base, range.size(), row, blocks, call);
  row_result<T> whole = result[0];
  whole.far = false;  // for the compiler: it is
  write_tile<op, keep>(own, call.y + row * call.y_stride + (base - x), call, whole, warp.max);
}

#else

template <int lanes, map_operation op, bool plain, class In, class Out, int V>
__global__ void map_row_by_cluster(const map_arguments<In, Out>, int, int) {}

#endif

template <int lanes, map_operation op, class In, class Out>
void launch_cluster_rows(const map_arguments<In, Out>& call, const row_plan& plan,
                         stream_handle stream) {
  with_plain_long(call, [&](auto plain) {
    launch_clusters(stream, map_row_by_cluster<lanes, op, plain(), In, Out, 8>, call.rows,
                    plan.blocks, plan.threads, call, plan.blocks, plan.part);
  });
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
