// SPDX-License-Identifier: Apache-2.0
/// \file
/// Edits of rows, and what their lists need after them: see core/edited.hpp.
#pragma once

#include <core/edited.hpp>
#include <core/real_types.hpp>
#include <core/typed_memory.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

/// Consecutive columns that are edited together: they share their row's parameters.
inline constexpr std::int64_t columns_edited = 32;

template <class In, class To>
struct edit_columns {
  const In* x;
  std::int64_t x_stride;
  To* y;
  std::int64_t y_stride;
  std::int64_t cols;
  core::edits edits;
  To removed;

  KOKKOS_FUNCTION void operator()(std::int64_t piece) const {
    using A = core::arithmetic_t<In>;
    const std::int64_t pieces = (cols + columns_edited - 1) / columns_edited;
    const std::int64_t r = piece / pieces;
    const std::int64_t first = (piece - r * pieces) * columns_edited;
    const std::int64_t end = first + columns_edited < cols ? first + columns_edited : cols;
    const core::edited_row<A> row(edits, r, cols);
    for (std::int64_t c = first; c < end; ++c) {
      row.edit(x + r * x_stride + c, c, edits.changes_values(), removed, y + r * y_stride + c);
    }
  }
};

struct narrow_columns {
  const_matrix_ref from;  ///< f32
  matrix_ref to;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t r = i / to.cols;
    const std::int64_t c = i - r * to.cols;
    core::write_real(to.data, to.type, r * to.stride + c,
                     static_cast<const float*>(from.data)[r * from.stride + c]);
  }
};

/// A row's list by a thread.
template <class In, class Index>
struct settle_lists {
  core::settled_lists lists;

  KOKKOS_FUNCTION void operator()(std::int64_t r) const { core::settle_list<In, Index>(lists, r); }
};

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
