// SPDX-License-Identifier: Apache-2.0
/// \file
/// softmax and log-softmax of few rows that are too long for clusters of small blocks: such blocks
/// all over the device, running at once, hold a row in their registers and exchange their states
/// through global memory. One read, one write, one launch. A row's bits are those of the plan for
/// any number of rows: its parts are folded by as many warps, only in other blocks.
#pragma once

#include "streamed.hpp"

#include <cuda/atomic>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Returns when `blocks` blocks have called it; what their threads wrote before is seen after it.
/// `barrier`: a count of arrivals, 0 before and after, and of rounds.
__device__ inline void wait_for_blocks(unsigned* barrier, unsigned blocks) {
  using counter = ::cuda::atomic_ref<unsigned, ::cuda::thread_scope_device>;
  __syncthreads();
  if (threadIdx.x == 0) {
    counter arrived(barrier[0]);
    counter rounds(barrier[1]);
    const unsigned round = rounds.load(::cuda::memory_order_relaxed);
    if (arrived.fetch_add(1, ::cuda::memory_order_acq_rel) == blocks - 1) {
      arrived.store(0, ::cuda::memory_order_relaxed);
      rounds.store(round + 1, ::cuda::memory_order_release);
    } else {
      while (rounds.load(::cuda::memory_order_acquire) == round) {
      }
    }
  }
  __syncthreads();
}

/// combine_states of `groups` groups of `count` <= lanes states each, in shared memory: to[i] of
/// group i. Warps take as many groups at once as they have lanes for. All threads of the block call
/// it; complete after the block's next barrier.
template <int lanes, class T>
__device__ inline void combine_groups(const state<T>* states, int groups, int count, T scale,
                                      state<T>* to) {
  int width = 1;
  while (width < count) {
    width *= 2;
  }
  const int member = static_cast<int>(threadIdx.x) % width;
  const int at_once = static_cast<int>(blockDim.x) / width;
  for (int first = 0; first < groups; first += at_once) {
    const int group = first + static_cast<int>(threadIdx.x) / width;
    const bool exists = group < groups && member < count;
    const state<T> own = exists ? states[group * count + member] : state<T>{};
    const T max = max_over_lanes(own.max, width);
    const T sum = sum_over_lanes(exists ? own.sum * own.factor(max, scale) : T{0}, width);
    if (exists && member == 0) {
      to[group] = {max, sum};
    }
  }
}

/// States of a row's warps, at most, by the plan of a cluster.
inline constexpr int most_states_together = most_cluster_blocks * most_warps;

/// `part`, `parts`, `threads`: vectors of a part of a row, number of parts of a row, and threads of
/// a block that has one by the plan; here the part's warps are spread over `split` blocks.
/// `chunked`: the parts are chunks, each by one block.
template <int lanes, map_operation op, bool chunked, class In, class Out>
__global__ void __launch_bounds__(chunk_threads, sizeof(In) == 8 ? 2 : 4)
    map_rows_together(const map_arguments<In, Out> call, int part, int parts, int threads,
                      int split, state<arithmetic_t<In>>* states, unsigned* barriers) {
  using T = arithmetic_t<In>;
  constexpr int V = chunk_vectors_each;
  constexpr bool keep = !chunked && tile<In, V>::keeps && op == map_operation::softmax;
  constexpr precision p = chunked ? precision::fast : precision_for<Out>;
  __shared__ shared_array<state<T>, most_states_together> all;
  __shared__ shared_array<state<T>, most_cluster_blocks> whole_parts;
  __shared__ fold_memory<T> memory;
  const auto blocks = static_cast<unsigned>(parts * split);
  const std::int64_t row = blockIdx.x / blocks;
  const int block = static_cast<int>(blockIdx.x % blocks);
  const int number = block / split;
  const int thread = block % split * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
  const int part_warps = threads / lanes;
  const bool exists = thread < threads;  // whole warps
  const In* const x = call.x + row * call.x_stride;
  const vector_range<In> range(x, call.cols, call.memory, std::int64_t{number} * part,
                               exists ? part : 0);
  tile<In, V> own(range, thread, threads);
  own.load_long();
  own.apply(call.map);
  const state<T> warp = fold_tile<lanes, p, keep>(own, call.scale, lanes);

  const int count = parts * (chunked ? 1 : part_warps);
  state<T>* const row_states = states + row * count;
  if constexpr (chunked) {
    if (threadIdx.x % lanes == 0) {
      memory.warps[threadIdx.x / lanes] = warp;
    }
    __syncthreads();
    if (threadIdx.x < lanes) {
      const state<T> chunk = combine_states<lanes>(
          memory.warps.data(), static_cast<int>(blockDim.x) / lanes, call.scale);
      if (threadIdx.x == 0) {
        row_states[number] = chunk;
      }
    }
  } else if (exists && thread % lanes == 0) {
    row_states[number * part_warps + thread / lanes] = warp;
  }
  wait_for_blocks(barriers + 2 * row, blocks);
  state<T> whole;
  if constexpr (chunked) {
    if (threadIdx.x < lanes) {
      whole = combine_states<lanes>(row_states, parts, call.scale);
      if (threadIdx.x == 0) {
        whole_parts[0] = whole;
      }
    }
    __syncthreads();
    whole = whole_parts[0];
  } else {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
      all[i] = row_states[i];
    }
    __syncthreads();
    combine_groups<lanes>(all.data(), parts, part_warps, call.scale, whole_parts.data());
    __syncthreads();
    whole = combine_states<lanes>(whole_parts.data(), parts, call.scale);
  }
  if (exists) {
    write_tile<op, keep>(own, call.y + row * call.y_stride + (range.base - x), call,
                         row_result<T>::of(whole, call.scale), warp.max);
  }
}

template <int lanes, map_operation op, class In, class Out>
bool launch_rows_together(const map_arguments<In, Out>& call, const row_plan& plan,
                          state<arithmetic_t<In>>* states, unsigned* barriers,
                          stream_handle stream) {
  const auto with = [&](auto chunked, int part, int parts) {
    const int warps = plan.threads / lanes;
    const int threads = (warps + plan.split - 1) / plan.split * lanes;
    return launch_together(stream, map_rows_together<lanes, op, chunked(), In, Out>,
                           call.rows * parts * plan.split, threads, call, part, parts, plan.threads,
                           plan.split, states, barriers);
  };
  return plan.kind == row_plan_kind::chunks ? with(std::true_type(), chunk_vectors, plan.chunks)
                                            : with(std::false_type(), plan.part, plan.blocks);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
