// SPDX-License-Identifier: Apache-2.0
/// \file
/// Plan lanes: some lanes of a warp fold a row.
#pragma once

#include <gpu/group/combine.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <int lanes, class Fold, int V>
__global__ void __launch_bounds__(256)
    reduce_rows_by_lanes(const Fold fold, const typename Fold::results results, int row_shift) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  const int row_lanes = 1 << row_shift;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t row = thread >> row_shift;
  const bool exists = row < fold.source.rows;
  const int lane = static_cast<int>(threadIdx.x) & (row_lanes - 1);
  auto own = fold.template hold<V>(exists ? row : 0, fold.source.range(row, exists, vector_bytes),
                                   lane, row_lanes);
  own.template load<true>();
  fold.edit(own);
  const auto whole = fold.template fold<lanes, precision::fast, false>(own, row_lanes);
  if (exists && lane == 0) {
    results.write(fold.states(), whole, row);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
