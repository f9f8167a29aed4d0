// SPDX-License-Identifier: Apache-2.0
/// \file
/// The kernels of logsumexp and fold: rows, chunks of rows, and rows from their chunks.
#pragma once

#include "calls.hpp"
#include "fold_tile.hpp"

#include <softfold/max_sum.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class In>
struct reduction_arguments {
  using T = arithmetic_t<In>;

  const In* x;
  readable_memory<In> memory;  ///< of all rows
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t x_stride;
  T scale;
  element_map map;
  int chunks;    ///< of each row
  void* result;  ///< one for each row, or null
  result_kind kind;
  state<T>* parts;  ///< where the chunks' states go, if there is no result
};

/// One row's result, from its state.
template <class T>
__device__ inline void write_result(const state<T>& s, T scale, result_kind kind, void* results,
                                    std::int64_t row) {
  switch (kind) {
    case result_kind::partial:
      static_cast<max_sum<T>*>(results)[row] = to_public(s, scale);
      return;
    case result_kind::lse_f64:
      static_cast<double*>(results)[row] = canonical(static_cast<double>(logsumexp(s, scale)));
      return;
    default:
      break;
  }
  const float lse = canonical(static_cast<float>(logsumexp(s, scale)));
  if (kind == result_kind::lse_f32) {
    static_cast<float*>(results)[row] = lse;
  } else if (kind == result_kind::lse_f16) {
    static_cast<half*>(results)[row] = half(lse);
  } else {
    static_cast<bfloat16*>(results)[row] = bfloat16(lse);
  }
}

template <int lanes, class In, int V>
__global__ void __launch_bounds__(256)
    reduce_rows_by_lanes(const reduction_arguments<In> call, int row_shift) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  const int row_lanes = 1 << row_shift;
  using T = arithmetic_t<In>;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t row = thread >> row_shift;
  const bool exists = row < call.rows;
  const vector_range<In> range(call.x + (exists ? row * call.x_stride : 0),
                               exists ? static_cast<int>(call.cols) : 0, call.memory);
  const int lane = static_cast<int>(threadIdx.x) & (row_lanes - 1);
  tile<In, V> own(range, lane, row_lanes);
  own.template load<true>();
  own.apply(call.map);
  const state<T> whole = fold_tile<lanes, precision::fast, false>(own, call.scale, row_lanes);
  if (exists && lane == 0) {
    write_result(whole, call.scale, call.kind, call.result, row);
  }
}

/// A row, or a chunk of one.
template <int lanes, class In>
__global__ void __launch_bounds__(chunk_threads) reduce_chunk(const reduction_arguments<In> call) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using T = arithmetic_t<In>;
  __shared__ fold_memory<T> memory;
  let_next_begin();
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(call.chunks);
  const std::int64_t chunk = blockIdx.x % static_cast<unsigned>(call.chunks);
  const int vectors = static_cast<int>(blockDim.x) * chunk_vectors_each;
  const vector_range<In> range(call.x + row * call.x_stride, call.cols, call.memory,
                               chunk * vectors, vectors);
  tile<In, chunk_vectors_each> own(range, static_cast<int>(threadIdx.x),
                                   static_cast<int>(blockDim.x));
  own.template load_long<true>();
  own.apply(call.map);
  const state<T> whole = combine_over_block<lanes>(
      fold_part<lanes, precision::fast, false>(own, call.scale), call.scale, memory);
  if (threadIdx.x == 0) {
    if (call.result != nullptr) {
      write_result(whole, call.scale, call.kind, call.result, row);
    } else {
      call.parts[blockIdx.x] = whole;
    }
  }
}

/// The states of rows from those of their chunks, by a warp each: results, or the states
/// themselves.
template <int lanes, class T>
__global__ void __launch_bounds__(256)
    finish_rows(const state<T>* parts, std::int64_t rows, int part_count, T scale, result_kind kind,
                void* results, state<T>* states) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  wait_for_launch_before();
  const std::int64_t row = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / lanes;
  if (row >= rows) {  // the whole warp
    return;
  }
  const state<T> whole = combine_states<lanes>(parts + row * part_count, part_count, scale);
  if (threadIdx.x % lanes == 0) {
    if (states != nullptr) {
      states[row] = whole;
    } else {
      write_result(whole, scale, kind, results, row);
    }
  }
}

/// The same of rows of many chunks, by a block each.
template <int lanes, class T>
__global__ void __launch_bounds__(512)
    finish_long_rows(const state<T>* parts, int part_count, T scale, result_kind kind,
                     void* results, state<T>* states) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  __shared__ chunk_memory<T> memory;
  wait_for_launch_before();
  const std::int64_t row = blockIdx.x;
  const state<T> whole = combine_chunks<lanes>(parts + row * part_count, part_count, scale, memory);
  if (threadIdx.x == 0) {
    if (states != nullptr) {
      states[row] = whole;
    } else {
      write_result(whole, scale, kind, results, row);
    }
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
