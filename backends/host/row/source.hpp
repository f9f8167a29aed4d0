// SPDX-License-Identifier: Apache-2.0
/// \file
/// Where a job's elements come from: a matrix, the scale, and the kernels of its types.
#pragma once

#include <backends/host/plan/plan.hpp>
#include <backends/host/row/state.hpp>

#include <softfold/matrix_view.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

struct source {
  typed_kernels kernels;
  const_matrix_ref x;
  double scale;

  /// For results of that type.
  source(const kernel_table& table, const const_matrix_ref& from, double s, dtype out)
      : kernels(kernels_for(table, from.type, out)), x(from), scale(s) {}

  /// Row r, from which kernels.at() goes on.
  [[nodiscard]] const void* row(std::int64_t r) const { return kernels.at(x.data, r * x.stride); }

  /// The shape of a job that reads this and writes elements of that size, or one result a row.
  [[nodiscard]] shape shape_to(std::int64_t output_bytes) const {
    return {.rows = x.rows,
            .cols = x.cols,
            .input_bytes = static_cast<std::int64_t>(size_of(x.type)),
            .output_bytes = output_bytes,
            .arithmetic_bytes = static_cast<std::int64_t>(size_of(kernels.computed)),
            .in_place = false};
  }
};

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
