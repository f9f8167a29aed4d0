// SPDX-License-Identifier: Apache-2.0
/// \file
/// Top-k of short rows for small k: the row is in the registers of some lanes of a warp, and each
/// of k rounds finds the best element below the last. No shared memory, no barrier.
#pragma once

#include "topk_row.hpp"

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The best element of a tile, or, if not `first`, the best that ranks after `last`. (No entry can
/// stand for the first: that of a NaN in column 0 is the greatest there is.) Columns are the row's.
template <class In, int V>
__device__ inline packed_entry best_below(const tile<In, V>& own, const vector_range<In>& range,
                                          bool first, packed_entry last) {
  constexpr int width = vector_width<In>;
  packed_entry best = entry_of<packed_entry>::none();
#pragma unroll
  for (int j = 0; j < V; ++j) {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const int at = own.number(j) * width + i;
      const packed_entry e = entry_of<packed_entry>::make(
          static_cast<std::uint32_t>(core::order_key(own.element(j, i))), at - range.head);
      best = range.has(at) && (first || e < last) && e > best ? e : best;
    }
  }
  return best;
}

template <int lanes, class In, int V>
__global__ void __launch_bounds__(256)
    topk_rows_by_lanes(const topk_arguments<In> call, int row_shift) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  const int row_lanes = 1 << row_shift;
  using T = arithmetic_t<In>;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t row = thread >> row_shift;
  const int lane = static_cast<int>(threadIdx.x) & (row_lanes - 1);
  const bool exists = row < call.rows;
  const In* const x = call.x + (exists ? row * call.x_stride : 0);
  const vector_range<In> range(x, exists ? static_cast<int>(call.cols) : 0, call.memory);
  tile<In, V> own(range, lane, row_lanes);
  own.load();
  state<T> whole;
  if (call.folds) {
    tile<In, V> scaled = own;
    scaled.apply(call.map);
    whole = fold_tile<lanes, precision::fast, false>(scaled, call.scale, row_lanes);
  }
  packed_entry last = entry_of<packed_entry>::none();
  for (std::int64_t rank = 0; rank < call.k; ++rank) {
    own.next_pass();  // or all elements' columns would be kept from round to round
    packed_entry best = best_below(own, range, rank == 0, last);
    for (int mask = row_lanes / 2; mask > 0; mask /= 2) {
      const packed_entry other = shuffle_xor(best, mask);
      best = other > best ? other : best;
    }
    if (exists && lane == 0) {
      write_ranked<packed_entry>(call, x, row, rank, best, whole);
    }
    last = best;
  }
  if (exists && lane == 0) {
    write_state(call, row, whole);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
