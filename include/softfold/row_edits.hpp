// SPDX-License-Identifier: Apache-2.0
/// \file
/// What is done to the elements of rows before they are scaled: biases, penalties, masks.
#pragma once

#include <softfold/matrix_view.hpp>

#include <cstdint>

namespace softfold {

/// Which keys a query of a score matrix of `queries` x cols sees: query i, those up to column
enum class causal : std::uint8_t {
  none,          ///< cols - 1
  top_left,      ///< i
  bottom_right,  ///< i + (cols - queries)
};

/// Edits of the rows that a function reads, in the order of the members, before the scale. Members
/// without data, and a softcap of 0, change nothing.
///
/// An element that the bias (-infinity there), the mask, the lengths or the causal corner remove
/// does not exist: whatever is stored there, NaN too, reaches no result; its probability is 0, its
/// logarithm -infinity, its gradient 0, and it is never selected before an element that exists. A
/// row whose elements are all removed is an empty row.
///
/// Elements are edited in the arithmetic's type, rounded once by each step. All memory is the
/// queue's device's, and is read in the order of its work. None of it may overlap an output.
struct row_edits {
  /// Added to x. [rows, cols], or one row for all; any real type.
  const_matrix_ref bias = {};

  /// Columns that were drawn before: row r has entries penalty_rows[r] to penalty_rows[r + 1] - 1,
  /// i64 [rows + 1]. penalty_columns, i32 or i64 [entries], ascend within a row; others than the
  /// row's columns are passed over. penalty_counts, i32 [entries], says how often each was drawn.
  const_vector_ref penalty_rows = {};
  const_vector_ref penalty_columns = {};
  const_vector_ref penalty_counts = {};
  /// At each entry, x becomes (x > 0 ? x / repetition : x repetition) - frequency count, minus
  /// presence where count > 0. f32 or f64, [rows] or one for all.
  const_vector_ref repetition = {};
  const_vector_ref frequency = {};
  const_vector_ref presence = {};

  /// x becomes softcap tanh(x / softcap); finite, 0 or more.
  double softcap = 0;

  /// i32 [rows, ceil(cols / 32)]: column j is kept where bit j mod 32 of word j / 32 is 1. Or u8
  /// [rows, cols]: where it is not 0. Or one row for all.
  const_matrix_ref mask = {};

  /// Columns below the row's length are kept. i32 or i64 [rows].
  const_vector_ref lengths = {};

  /// Rows are the queries of matrices of `queries` rows each: row r is query r mod queries.
  causal corner = causal::none;
  std::int64_t queries = 0;
  /// Of the columns that the corner leaves, the last so many are kept; 0: all.
  std::int64_t window = 0;
};

}  // namespace softfold
