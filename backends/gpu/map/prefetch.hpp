// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a block asks for between its last read and its first write.
#pragma once

#include <gpu/job/row_source.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// As many rows as blocks of the caller's size run at once.
__device__ inline std::int64_t rows_ahead(int blocks_of_row) {
  constexpr int threads_at_once = 1024;  // of a multiprocessor, by their registers
  const unsigned blocks = static_cast<unsigned>(multiprocessors() * threads_at_once) / blockDim.x;
  return blocks / static_cast<unsigned>(blocks_of_row);
}

/// Asks for what is read when the calling block has gone, of which `thread`s from 0 on have the
/// vectors at `from` of row `row`. To be called between a block's last read and its first write,
/// when it would have nothing under way. Earlier, or for more rows than the device holds at once,
/// the cache would lose lines before they are read.
template <class In>
__device__ inline void prefetch_successor(const In* from, int vectors, int thread, std::int64_t row,
                                          int blocks_of_row, const row_source<In>& source) {
  if constexpr (prefetches) {
    constexpr int line = 128 / 16;
    const std::int64_t ahead = rows_ahead(blocks_of_row);
    const int first = thread * line;
    if (row + ahead < source.rows && first < vectors) {
      prefetch_line(from + ahead * source.stride + first * vector_width<In>);
    }
  }
}

/// The same of what a block holds, `own`, of a job's rows: the vectors at `from`, which begin at
/// column number `column`. A successor's mask as a rule removes about as much as the own one.
template <class Fold, class Held, class In>
__device__ inline void prefetch_successor(const Fold& fold, const Held& own, const In* from,
                                          int vectors, std::int64_t row, int blocks_of_row) {
  if constexpr (requires { fold.removals; }) {
    if constexpr (prefetches) {
      const std::int64_t next = row + rows_ahead(blocks_of_row);
      if (next < fold.source.rows) {
        fold.removals.prefetch(next, from - fold.source.row(row), vectors, vector_width<In>);
      }
    }
    if (!own.is_mostly_kept()) {
      return;
    }
  }
  prefetch_successor(from, vectors, static_cast<int>(threadIdx.x), row, blocks_of_row, fold.source);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
