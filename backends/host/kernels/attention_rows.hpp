// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which of some rows of attention a kernel gets: by their places in row blocks, not by how many
/// are given at once.
#pragma once

#include <backends/host/kernels/table.hpp>

#include <core/always_inline.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// Rows [first, past), whose states are numbers of type A.
template <class A>
SOFTFOLD_INLINE attention_rows rows_of(const attention_rows& all, int first, int past) {
  attention_rows some = all;
  some.rows = past - first;
  some.q_offsets += first;
  some.first += first;
  some.last += first;
  some.position += first;
  some.slope += all.slope != nullptr ? first : 0;
  some.bias += all.bias != nullptr ? first : 0;
  some.max = static_cast<A*>(all.max) + first;
  some.sum += first;
  some.weighted = static_cast<A*>(all.weighted) + first * all.weighted_stride;
  return some;
}

/// Calls rest(rows) for the rows of a row block that has no more than `few`, many(rows) for those
/// before.
template <class A, class Many, class Rest>
SOFTFOLD_INLINE void by_row_blocks(const attention_rows& rows, int few, const Many& many,
                                   const Rest& rest) {
  const int left = rows.rows % attention_row_block;
  const int past = left <= few ? rows.rows - left : rows.rows;
  if (past > 0) {
    many(rows_of<A>(rows, 0, past));
  }
  if (past < rows.rows) {
    rest(rows_of<A>(rows, past, rows.rows));
  }
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
