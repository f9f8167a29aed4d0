// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a block asks for between its last read and its first write.
#pragma once

#include <gpu/job/row_source.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Asks for what is read when the calling block, which has the vectors at `from` of row `row`, has
/// gone. To be called between a block's last read and its first write, when it would have nothing
/// under way. Earlier, or for more rows than the device holds at once, the cache would lose lines
/// before they are read.
template <class In>
__device__ inline void prefetch_successor(const In* from, int vectors, std::int64_t row,
                                          int blocks_of_row, const row_source<In>& source) {
  if constexpr (prefetches) {
    constexpr int threads_at_once = 1024;  // of a multiprocessor, by their registers
    constexpr int line = 128 / 16;
    const int blocks = multiprocessors() * threads_at_once / static_cast<int>(blockDim.x);
    const std::int64_t ahead = blocks / blocks_of_row;
    const int first = static_cast<int>(threadIdx.x) * line;
    if (row + ahead < source.rows && first < vectors) {
      prefetch_line(from + ahead * source.stride + first * vector_width<In>);
    }
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
