// SPDX-License-Identifier: Apache-2.0
/// \file
/// How the totals of rows are found.
#pragma once

#include <gpu/executor.hpp>
#include <gpu/reproducible/totals.hpp>
#include <gpu/reproducible/totals_by_tiles.hpp>

#include <core/problem.hpp>

#include <cstdint>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// How rows are read for their totals.
struct total_plan {
  bool plainly = false;  ///< by core/reproducible.hpp's own code
  bool plain_tiles = false;
  tile_groups tiles;
  row_chunks chunks = {};  ///< if it is neither

  /// Of rows that are there.
  template <class In>
  static total_plan of(const executor& on, const const_matrix_ref& x, double scale) {
    const int multiprocessors = on.properties.multiprocessors;
    total_plan plan;
    plan.plainly = std::is_same_v<In, double> || static_cast<float>(scale) == 0;
    if constexpr (!std::is_same_v<In, double>) {
      // One block would be long at work where others have nothing to do.
      constexpr std::int64_t long_row = 16384;
      const bool are_few = x.cols > long_row && x.rows < multiprocessors;
      if (has_tiles(scale) && !are_few && on.forced != plan_name::chunks) {
        const auto source = row_source<In>::of(x);
        plan.plain_tiles = are_plain(source, scale);
        plan.tiles = tile_groups::of(source.shape(), x.rows, plan.plain_tiles, on.limits());
      }
    }
    plan.chunks =
        row_chunks::filling(x.cols, reader_step<In>, x.rows, total_resident * multiprocessors);
    return plan;
  }
  [[nodiscard]] bool by_tiles() const { return tiles.rows > 0; }
  /// Parts that there has to be memory for.
  [[nodiscard]] std::int64_t parts(std::int64_t rows) const {
    return plainly || by_tiles() ? 0 : rows * chunks.count;
  }
};

/// reproducible.inl: the totals of rows by tiles, or, if rows are read by chunks, the parts' alone;
/// not for those that are read plainly.
template <class In>
void launch_parts(executor& on, const total_plan& plan, const const_matrix_ref& x, double scale,
                  part_total<arithmetic_t<In>>* parts, const total_results<arithmetic_t<In>>& to);

/// reproducible.inl: softmax or log_softmax of elements, by the totals of their rows.
template <class In>
void map_by_totals(executor& on, const core::row_problem& p,
                   const core::reproducible::row_total<arithmetic_t<In>>* totals);

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
