// SPDX-License-Identifier: Apache-2.0
/// \file
/// How the totals of rows are found.
#pragma once

#include <gpu/executor.hpp>
#include <gpu/reproducible/totals.hpp>

#include <core/problem.hpp>

#include <cstdint>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// How rows are read for their totals.
struct total_plan {
  bool plainly;  ///< by core/reproducible.hpp's own code
  bool by_warp;
  row_chunks chunks;  ///< if it is neither

  /// Of rows that are there.
  template <class In>
  static total_plan of(const executor& on, const const_matrix_ref& x, double scale) {
    const int multiprocessors = on.properties.multiprocessors;
    const bool are_many = x.rows >= std::int64_t{16} * multiprocessors;
    const bool plainly = std::is_same_v<In, double> || static_cast<float>(scale) == 0;
    return {plainly, !plainly && x.cols <= (are_many ? warp_columns_of_many : warp_columns),
            row_chunks::filling(x.cols, reader_step<In>, x.rows, total_resident * multiprocessors)};
  }
  /// Parts that there has to be memory for.
  [[nodiscard]] std::int64_t parts(std::int64_t rows) const {
    return plainly || by_warp ? 0 : rows * chunks.count;
  }
};

/// reproducible.inl: the totals of rows by warps, or, if rows are read by chunks, the parts' alone;
/// not for those that are read plainly.
template <class In, class Results = total_results<arithmetic_t<In>>>
void launch_parts(executor& on, const total_plan& plan, const const_matrix_ref& x, double scale,
                  part_total<arithmetic_t<In>>* parts, const Results& to);

/// reproducible.inl: softmax or log_softmax of elements, by the totals of their rows.
template <class In>
void map_by_totals(executor& on, const core::row_problem& p,
                   const core::reproducible::row_total<arithmetic_t<In>>* totals);

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
