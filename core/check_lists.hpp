// SPDX-License-Identifier: Apache-2.0
/// \file
/// Argument checks of the functions on top-k lists and on states alone, whole calls at a time.
#pragma once

#include <core/check.hpp>

namespace softfold::core {

/// The columns offset, ..., offset + cols - 1: that they are columns. Returns the end.
inline std::int64_t check_column_offset(const char* function, std::int64_t column_offset,
                                        std::int64_t cols) {
  const argument offset{function, "column_offset"};
  if (column_offset < 0) {
    fail(errc::invalid_argument, offset, "", std::to_string(column_offset), "0 or more");
  }
  std::int64_t end = 0;
  if (__builtin_add_overflow(column_offset, cols, &end)) {
    fail(errc::invalid_argument, offset, "", std::to_string(column_offset),
         "at most 2^63 - 1 - x_part.cols = " +
             std::to_string(std::numeric_limits<std::int64_t>::max() - cols));
  }
  return end;
}

/// Indices of a part's top-k: i32 or i64, [rows, any k], wide enough for the part's last column.
inline std::int64_t check_part_indices(argument arg, const matrix_ref& indices,
                                       const const_matrix_ref& x_part, std::int64_t column_offset) {
  check_index_rows(arg, indices, x_part.rows);
  const std::int64_t end = check_column_offset(arg.function, column_offset, x_part.cols);
  if (indices.type == dtype::i32 && end > std::numeric_limits<std::int32_t>::max()) {
    fail(errc::unsupported_type, arg, ".type", "i32",
         "i64 for column_offset + x_part.cols = " + std::to_string(end));
  }
  return check_matrix(arg, indices);
}

/// The arguments of fold_topk. Returns the scale as the arithmetic uses it.
inline double check_fold_topk(const char* function, const const_matrix_ref& x_part,
                              const partials_ref& partials, const matrix_ref& values,
                              const matrix_ref& indices, const fold_topk_options& options) {
  check_input({function, "x_part"}, x_part);
  const_matrix_ref states;
  if (partials.data != nullptr || partials.size != 0) {
    states =
        check_partials({function, "partials"}, partials, x_part.rows, arithmetic_type(x_part.type));
  }
  check_part_indices({function, "indices"}, indices, x_part, options.column_offset);
  check_output({function, "values"}, values, x_part.rows, indices.cols, x_part.type);
  const double scale = check_scale(function, options.scale, x_part.type);
  check_overlap(function, {"x_part", x_part},
                {{"partials", states}, {"values", values}, {"indices", indices}}, false);
  return scale;
}

/// A sorted list for each row, all of one shape: values of a real type, i32 or i64 indices.
inline void check_list(argument values_arg, const const_matrix_ref& values, argument indices_arg,
                       const const_matrix_ref& indices, std::int64_t rows, std::int64_t k) {
  check_shape(values_arg, values, rows, k);
  check_input(values_arg, values);
  check_index_type(indices_arg, indices.type);
  check_shape(indices_arg, indices, rows, k);
  check_matrix(indices_arg, indices);
}

/// The arguments of combine_topk.
inline void check_combine_topk(const char* function, const const_matrix_ref& more_values,
                               const const_matrix_ref& more_indices, const matrix_ref& values,
                               const matrix_ref& indices) {
  check_list({function, "more_values"}, more_values, {function, "more_indices"}, more_indices,
             more_values.rows, more_values.cols);
  check_list({function, "values"}, values, {function, "indices"}, indices, more_values.rows,
             more_values.cols);
  const auto same_type = [&](const char* name, dtype found, dtype expected) {
    if (found != expected) {
      fail(errc::unsupported_type, {function, name}, ".type", name_of(found), name_of(expected));
    }
  };
  same_type("values", values.type, more_values.type);
  same_type("indices", indices.type, more_indices.type);
  for (const operand& input :
       {operand{"more_values", more_values}, operand{"more_indices", more_indices}}) {
    check_overlap(function, input, {{"values", values}, {"indices", indices}}, false);
  }
}

/// The arguments of logsumexp of states.
inline void check_logsumexp(const char* function, const const_partials_ref& partials,
                            const vector_ref& lse) {
  check_state_type({function, "partials"}, partials.type);
  const const_matrix_ref states =
      check_partials({function, "partials"}, partials, partials.size, partials.type);
  if (lse.type != partials.type) {
    fail(errc::unsupported_type, {function, "lse"}, ".type", name_of(lse.type),
         name_of(partials.type));
  }
  const const_matrix_ref column =
      check_vector({function, "lse"}, lse.data, lse.type, lse.size, partials.size);
  check_overlap(function, {"partials", states}, {{"lse", column}}, false);
}

/// The arguments of normalize and log_normalize. Returns the scale as the arithmetic uses it.
inline double check_normalize(const char* function, const const_matrix_ref& x_part,
                              const const_partials_ref& partials, const matrix_ref& y,
                              const softmax_options& options) {
  check_input({function, "x_part"}, x_part);
  const const_matrix_ref states =
      check_partials({function, "partials"}, partials, x_part.rows, arithmetic_type(x_part.type));
  check_output({function, "y"}, y, x_part.rows, x_part.cols, x_part.type);
  const double scale = check_scale(function, options.scale, x_part.type);
  check_empty_row(function, options.empty_row);
  check_overlap(function, {"x_part", x_part}, {{"y", y}}, true);
  check_overlap(function, {"partials", states}, {{"y", y}}, false);
  return scale;
}

}  // namespace softfold::core
