// SPDX-License-Identifier: Apache-2.0
/// \file
/// How rows are divided among blocks.
#pragma once

#include <gpu/contract.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Chunks of a row.
struct row_chunks {
  int count;
  std::int64_t columns;  ///< of a chunk

  /// `most` at most, of whole steps.
  SOFTFOLD_HD static row_chunks of(std::int64_t cols, std::int64_t step, std::int64_t most) {
    const std::int64_t steps = cols > step ? (cols + step - 1) / step : 1;
    const std::int64_t chunks = most < 1 ? 1 : most < steps ? most : steps;
    const std::int64_t each = (steps + chunks - 1) / chunks;
    return {static_cast<int>((steps + each - 1) / each), each * step};
  }
  /// Of `rows` rows, for a device that so many blocks fill: as few chunks as do, or some more,
  /// where their last wave would leave much of it idle. A chunk's start and end cost about `cost`
  /// of it.
  static row_chunks filling(std::int64_t cols, std::int64_t step, std::int64_t rows,
                            std::int64_t blocks, double cost = 0.08) {
    const std::int64_t fewest = rows < blocks ? blocks / rows : 1;
    row_chunks best = of(cols, step, fewest);
    double best_share = 0;
    for (std::int64_t most = fewest; most < fewest + 3; ++most) {
      const row_chunks chunks = of(cols, step, most);
      const std::int64_t all = rows * chunks.count;
      const std::int64_t waves = (all + blocks - 1) / blocks;
      const double share = static_cast<double>(all) / static_cast<double>(waves * blocks) /
                           (1 + cost * static_cast<double>(chunks.count));
      if (share > best_share) {
        best_share = share;
        best = chunks;
      }
    }
    return best;
  }
  [[nodiscard]] __device__ std::int64_t begin(int chunk) const { return chunk * columns; }
  [[nodiscard]] __device__ std::int64_t end(int chunk, std::int64_t cols) const {
    return begin(chunk) + columns < cols ? begin(chunk) + columns : cols;
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
