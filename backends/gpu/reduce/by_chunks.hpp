// SPDX-License-Identifier: Apache-2.0
/// \file
/// Plan chunks: a block folds a row, or a chunk of one; the states of rows of several chunks are
/// combined by a kernel of their own.
#pragma once

#include <gpu/group/combine.hpp>
#include <gpu/row/tile.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// `parts`: where the chunks' states go if there is no result.
template <int lanes, class Fold>
__global__ void __launch_bounds__(chunk_threads)
    reduce_chunk(const Fold fold, int chunks, const typename Fold::results results,
                 typename Fold::state* parts) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  __shared__ fold_memory<typename Fold::state> memory;
  let_next_begin();
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(chunks);
  const std::int64_t chunk = blockIdx.x % static_cast<unsigned>(chunks);
  constexpr int each = chunk_vectors_each_of(Fold::matrices);
  const int vectors = static_cast<int>(blockDim.x) * each;
  auto own = fold.template hold<each>(row, fold.source.range(row, chunk * vectors, vectors),
                                      static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  own.template load_long<true>();
  fold.edit(own);
  const auto whole = combine_over_block<lanes>(
      fold.template fold_part<lanes, precision::fast, false>(own), fold.states(), memory);
  if (threadIdx.x == 0) {
    if (results.wanted()) {
      results.write(fold.states(), whole, row);
    } else {
      parts[blockIdx.x] = whole;
    }
  }
}

/// The states of rows from those of their chunks, by a warp each: results, or the states
/// themselves.
template <int lanes, class Fold>
__global__ void __launch_bounds__(256)
    finish_rows(const typename Fold::state* parts, std::int64_t rows, int part_count,
                const typename Fold::monoid monoid, const typename Fold::results results,
                typename Fold::state* states) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  wait_for_launch_before();
  const std::int64_t row = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / lanes;
  if (row >= rows) {  // the whole warp
    return;
  }
  const auto whole = combine_states<lanes>(parts + row * part_count, part_count, monoid);
  if (threadIdx.x % lanes == 0) {
    if (states != nullptr) {
      states[row] = whole;
    } else {
      results.write(monoid, whole, row);
    }
  }
}

/// The same of rows of many chunks, by a block each.
template <int lanes, class Fold>
__global__ void __launch_bounds__(512)
    finish_long_rows(const typename Fold::state* parts, int part_count,
                     const typename Fold::monoid monoid, const typename Fold::results results,
                     typename Fold::state* states) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  __shared__ chunk_memory<typename Fold::state> memory;
  wait_for_launch_before();
  const std::int64_t row = blockIdx.x;
  const auto whole = combine_chunks<lanes>(parts + row * part_count, part_count, monoid, memory);
  if (threadIdx.x == 0) {
    if (states != nullptr) {
      states[row] = whole;
    } else {
      results.write(monoid, whole, row);
    }
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
