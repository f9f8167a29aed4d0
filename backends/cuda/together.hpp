// SPDX-License-Identifier: Apache-2.0
/// \file
/// softmax and log-softmax of few rows that are too long for clusters: the blocks of all chunks run
/// at once, hold them in their registers and exchange their states. One read, one write, one
/// launch.
#pragma once

#include "exchange.hpp"

#include <gpu/rows.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <int lanes, map_operation op, bool plain, class In, class Out>
__global__ void __launch_bounds__(chunk_threads, sizeof(In) == 8 ? 2 : 4)
    map_chunks_together(const map_arguments<In, Out> call, exchange_memory* memory) {
  using T = arithmetic_t<In>;
  __shared__ fold_memory<T> warps;
  __shared__ shared_array<state<T>, most_chunks_read_by_all> states;  // registers are scarce
  __shared__ shared_array<row_result<T>, 1> result;
  const state_exchange<T> exchange(memory->words, memory->readers);
  const auto chunks = static_cast<unsigned>(call.chunks);
  const std::int64_t row = blockIdx.x / chunks;
  const unsigned chunk = blockIdx.x % chunks;
  const In* const x = call.x + row * call.x_stride;
  const vector_range<In> range(x, call.cols, call.memory, std::int64_t{chunk} * chunk_vectors,
                               chunk_vectors, plain ? known_to_be_aligned : vector_bytes);
  tile<In, chunk_vectors_each, plain> own(range, static_cast<int>(threadIdx.x),
                                          static_cast<int>(blockDim.x));
  own.load_long();
  own.apply(call.map);
  const state<T> warp = fold_part<lanes, precision::fast, false>(own, call.scale);
  if (threadIdx.x % lanes == 0) {
    warps.warps[threadIdx.x / lanes] = warp;
  }
  __syncthreads();
  if (threadIdx.x < lanes) {
    const state<T> s = combine_states<lanes>(warps.warps.data(), chunk_threads / lanes, call.scale);
    if (threadIdx.x == 0) {
      exchange.publish(blockIdx.x, s);
    }
    const state<T> whole = exchange.template wait_for_row<lanes>(
        row, call.chunks, call.scale,
        [&](int j) -> state<T>& { return states[j * lanes + static_cast<int>(threadIdx.x)]; });
    if (threadIdx.x == 0) {
      result[0] = row_result<T>::template of<op>(whole, call.scale);
    }
  }
  __syncthreads();
  row_result<T> whole = result[0];
  whole.far = false;  // for the compiler: it is
  write_tile<op, false>(own, call.y + row * call.y_stride + (range.base - x), call, whole, T{0});
  if (threadIdx.x < lanes) {
    exchange.template leave<lanes>(row, call.chunks);
  }
}

template <int lanes, map_operation op, class In, class Out>
bool launch_chunks_together(const map_arguments<In, Out>& call, exchange_memory* exchange,
                            stream_handle stream) {
  return with_plain_long(call, [&](auto plain) {
    return launch_together(stream, map_chunks_together<lanes, op, plain(), In, Out>,
                           call.rows * call.chunks, chunk_threads, 0, call, exchange);
  });
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
