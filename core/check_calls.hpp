// SPDX-License-Identifier: Apache-2.0
/// \file
/// The checks of whole calls: the first line of every entry point of every backend.
#pragma once

#include <core/check.hpp>

namespace softfold::core {

/// softmax and log_softmax. Returns the scale as the arithmetic uses it, as all of these do.
inline double check_map(const char* name, const const_matrix_ref& x, const matrix_ref& y,
                        const softmax_options& options) {
  check_input({name, "x"}, x);
  check_output({name, "y"}, y, x.rows, x.cols, x.type);
  const double scale = check_scale(name, options.scale, x.type);
  check_empty_row(name, options.empty_row);
  check_overlap(name, {"x", x}, {{"y", y}}, true);
  return scale;
}

inline double check_logsumexp(const char* name, const const_matrix_ref& x, const vector_ref& lse,
                              const logsumexp_options& options) {
  check_input({name, "x"}, x);
  check_output_type({name, "lse"}, lse.type, x.type);
  const const_matrix_ref column =
      check_vector({name, "lse"}, lse.data, lse.type, lse.size, x.rows);
  const double scale = check_scale(name, options.scale, x.type);
  check_overlap(name, {"x", x}, {{"lse", column}}, false);
  return scale;
}

inline double check_fold(const char* name, const const_matrix_ref& x_part,
                         const partials_ref& partials, const logsumexp_options& options) {
  check_input({name, "x_part"}, x_part);
  const const_matrix_ref states = check_partials({name, "partials"}, partials, x_part.rows,
                                                 arithmetic_type(x_part.type));
  const double scale = check_scale(name, options.scale, x_part.type);
  check_overlap(name, {"x_part", x_part}, {{"partials", states}}, false);
  return scale;
}

inline void check_combine(const char* name, const const_partials_ref& more,
                          const partials_ref& partials) {
  if (more.type != dtype::f32 && more.type != dtype::f64) {
    fail(errc::unsupported_type, {name, "more"}, ".type", name_of(more.type), "f32 or f64 states");
  }
  const const_matrix_ref from = check_partials({name, "more"}, more, more.size, more.type);
  const const_matrix_ref to = check_partials({name, "partials"}, partials, more.size, more.type);
  check_overlap(name, {"more", from}, {{"partials", to}}, true);
}

inline double check_normalize(const char* name, const const_matrix_ref& x_part,
                              const const_partials_ref& partials, const matrix_ref& y,
                              const softmax_options& options) {
  check_input({name, "x_part"}, x_part);
  const const_matrix_ref states = check_partials({name, "partials"}, partials, x_part.rows,
                                                 arithmetic_type(x_part.type));
  check_output({name, "y"}, y, x_part.rows, x_part.cols, x_part.type);
  const double scale = check_scale(name, options.scale, x_part.type);
  check_empty_row(name, options.empty_row);
  check_overlap(name, {"x_part", x_part}, {{"y", y}}, true);
  check_overlap(name, {"partials", states}, {{"y", y}}, false);
  return scale;
}

inline void check_topk(const char* name, const const_matrix_ref& x, const matrix_ref& values,
                       const matrix_ref& indices) {
  check_input({name, "x"}, x);
  check_indices({name, "indices"}, indices, x);
  check_output({name, "values"}, values, x.rows, indices.cols, x.type);
  check_overlap(name, {"x", x}, {{"values", values}, {"indices", indices}}, false);
}

inline double check_softmax_topk(const char* name, const const_matrix_ref& x,
                                 const matrix_ref& probabilities, const matrix_ref& indices,
                                 const softmax_topk_options& options) {
  const std::int64_t k = indices.cols;
  check_input({name, "x"}, x);
  check_indices({name, "indices"}, indices, x);
  check_output({name, "probabilities"}, probabilities, x.rows, k, x.type);
  const double scale = check_scale(name, options.scale, x.type);
  check_empty_row(name, options.empty_row);
  const matrix_ref& logits = options.logits;
  if (logits.data != nullptr) {
    check_output({name, "logits"}, logits, x.rows, k, x.type);
  }
  const vector_ref& lse = options.lse;
  const_matrix_ref lse_column;
  if (lse.data != nullptr) {
    check_output_type({name, "lse"}, lse.type, x.type);
    lse_column = check_vector({name, "lse"}, lse.data, lse.type, lse.size, x.rows);
  }
  check_overlap(name, {"x", x},
                {{"probabilities", probabilities},
                 {"indices", indices},
                 {"logits", logits.data != nullptr ? logits : matrix_ref{}},
                 {"lse", lse_column}},
                false);
  return scale;
}

}  // namespace softfold::core
