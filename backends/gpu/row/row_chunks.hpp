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
  [[nodiscard]] __device__ std::int64_t begin(int chunk) const { return chunk * columns; }
  [[nodiscard]] __device__ std::int64_t end(int chunk, std::int64_t cols) const {
    return begin(chunk) + columns < cols ? begin(chunk) + columns : cols;
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
