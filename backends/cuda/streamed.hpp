// SPDX-License-Identifier: Apache-2.0
/// \file
/// softmax and log-softmax of rows that leave room for one or two blocks on a multiprocessor: while
/// a cluster holds a row in its registers, bulk copies bring the next one into its shared memory,
/// or nothing would be read while a row is written. One read and one write of each row. As many
/// clusters run as the device has room for, and take the rows in turn.
#pragma once

#include "clustered.hpp"

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

#if SOFTFOLD_GPU_HOPPER

/// Starts the copy of a block's part of a row to shared memory. All threads call it: the first
/// copies the vectors inside the matrix in bulk; two more copy the matrix's first and last vector,
/// if they are not, element by element. All three arrive at the barrier.
inline constexpr int copy_arrivals = 3;
template <class In>
__device__ inline void start_copy(const vector_range<In>& range, transfer_barrier& barrier,
                                  block16* buffer) {
  const int size = range.size();
  if (threadIdx.x == 0) {
    const int first = range.readable(0) ? 0 : 1;
    const int last = size > 0 && range.readable(size - 1) ? size : size - 1;
    if (last > first) {
      barrier.copy(buffer + first, range.base + first * vector_range<In>::width,
                   static_cast<unsigned>(last - first) * sizeof(block16));
    } else {
      barrier.arrive();
    }
  } else if (threadIdx.x == 32 || threadIdx.x == 64) {
    const int edge = threadIdx.x == 32 ? 0 : size - 1;
    if (edge < size && edge >= 0 && !range.readable(edge)) {
      buffer[edge] = load_elements(range, edge);
    }
    barrier.arrive();
  }
}

template <int lanes, map_operation op, class In, class Out, int V>
__global__ void __launch_bounds__(sizeof(In) == 8 ? 512 : 1024, 1)
    map_streamed_rows(const map_arguments<In, Out> call, int blocks, int part) {
  using T = arithmetic_t<In>;
  constexpr bool keep = tile<In, V>::keeps && op == map_operation::softmax;
  extern __shared__ block16 buffer[];  // [part]
  __shared__ transfer_barrier arrival;
  __shared__ cluster_memory<T> states;
  __shared__ fold_memory<T> memory;

  const int rank = cluster::rank();
  const std::int64_t team = blockIdx.x / static_cast<unsigned>(blocks);
  const std::int64_t teams = gridDim.x / static_cast<unsigned>(blocks);
  const auto range_of = [&](std::int64_t row) {
    return vector_range<In>(call.x + row * call.x_stride, call.cols, call.memory,
                            std::int64_t{rank} * part, part);
  };
  if (threadIdx.x == 0) {
    arrival.initialise(copy_arrivals);
    states.initialise();
  }
  cluster::arrive();
  // One row for each cluster: nothing to overlap, and no way round by shared memory.
  const bool direct = call.rows <= teams;
  __syncthreads();
  cluster::wait();
  if (!direct && team < call.rows) {
    start_copy(range_of(team), arrival, buffer);
  }
  int round = 0;
  for (std::int64_t row = team; row < call.rows; row += teams, ++round) {
    const vector_range<In> range = range_of(row);
    int thread = static_cast<int>(threadIdx.x);
    forget_origin(thread);  // or the columns of all elements would be kept from row to row
    tile<In, V> own(range, thread, static_cast<int>(blockDim.x));
    if (direct) {
      own.load();
    } else {
      arrival.wait(round % 2);
      own.load(buffer);
      __syncthreads();  // the buffer is free
      if (row + teams < call.rows) {
        start_copy(range_of(row + teams), arrival, buffer);
      }
    }
    own.apply(call.map);
    const state<T> warp = fold_tile<lanes, precision_for<Out>, keep>(own, call.scale, lanes);
    const state<T> block = combine_over_block<lanes>(warp, call.scale, memory);
    const state<T> whole = combine_over_cluster<lanes>(block, call.scale, blocks, states, round);
    Out* const to = call.y + row * call.y_stride + (range.base - (call.x + row * call.x_stride));
    write_tile<op, keep>(own, to, call, row_result<T>::of(whole, call.scale), warp.max);
  }
}

#else

template <int lanes, map_operation op, class In, class Out, int V>
__global__ void map_streamed_rows(const map_arguments<In, Out>, int, int) {}

#endif

template <int lanes, map_operation op, class In, class Out>
void launch_streamed_rows(const map_arguments<In, Out>& call, const row_plan& plan,
                          stream_handle stream) {
  launch_resident(stream, map_streamed_rows<lanes, op, In, Out, 8>, call.rows, plan.blocks,
                  plan.threads, static_cast<std::size_t>(plan.part) * sizeof(block16), call,
                  plan.blocks, plan.part);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
