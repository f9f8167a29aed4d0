// SPDX-License-Identifier: Apache-2.0
/// \file
/// The first pass over one row, whatever it holds.
#pragma once

#include "parallel.hpp"
#include "row.hpp"

#include <atomic>
#include <cstddef>

namespace softfold::cpu_backend {

/// Folds a row of n columns. `segments` has room for segments_of(n) states; `kept` and `groups`
/// are as in input_kernels::fold, for the whole row, or null. If `segments_kept` is not null it
/// is set to whether `kept` holds exponentials.
inline row_state fold_row(const plan& plan, const typed_kernels& kernels, const void* x,
                          std::int64_t n, double scale, segment_state* segments, void* kept,
                          void* groups, std::int64_t group_stride, bool* segments_kept) {
  std::atomic<bool> ordinary = ordinary_scale(scale);
  if (ordinary) {
    over_segments(
        plan, kernels.table, n, [&](std::int64_t i, std::int64_t begin, std::int64_t count) {
          void* const kept_here = kept == nullptr ? nullptr : kernels.computed_at(kept, begin);
          void* const groups_here =
              groups == nullptr ? nullptr : kernels.computed_at(groups, i * group_stride);
          if (!kernels.input.fold(kernels.at(x, begin), count, scale, kept_here, groups_here,
                                  &segments[i])) {
            ordinary = false;
          }
        });
  }
  if (segments_kept != nullptr) {
    *segments_kept = ordinary && kept != nullptr;
  }
  return ordinary ? combine_segments(segments, segments_of(n), scale, kernels.computed)
                  : careful_state(kernels, x, n, scale);
}

}  // namespace softfold::cpu_backend
