// SPDX-License-Identifier: Apache-2.0
/// \file
/// Each entry point's arguments as one checked value: what an entry hands from its check to its
/// plan and launch, the same in every backend.
#pragma once

#include <core/check_lists.hpp>

#include <softfold/softfold.hpp>

#include <algorithm>
#include <cstdint>

namespace softfold::core {

enum class operation : std::uint8_t { softmax, log_softmax, logsumexp };

/// The entry point.
constexpr const char* name_of(operation what) {
  return what == operation::softmax       ? "softmax"
         : what == operation::log_softmax ? "log_softmax"
                                          : "logsumexp";
}

constexpr const char* normalize_name(bool log) { return log ? "log_normalize" : "normalize"; }

/// softmax, log_softmax and logsumexp.
struct row_problem {
  operation what;
  const_matrix_ref x;
  matrix_ref y;  ///< logsumexp: [rows, 1]
  double scale;
  empty_row policy;
};

/// topk, softmax_topk and fold_topk. Outputs without data are not wanted.
struct topk_problem {
  const char* function;  ///< the entry point
  const_matrix_ref x;
  matrix_ref indices;
  matrix_ref values;              ///< the elements themselves: softmax_topk's logits
  matrix_ref probabilities = {};  ///< if wanted, the row is folded
  vector_ref lse = {};
  partials_ref partials = {};
  double scale = 1;
  empty_row policy = empty_row::nan;
  std::int64_t column_offset = 0;

  [[nodiscard]] bool folds() const {
    return probabilities.data != nullptr || lse.data != nullptr || partials.data != nullptr;
  }
  /// Elements to select; a list may be longer.
  [[nodiscard]] std::int64_t k() const { return std::min(indices.cols, x.cols); }
  [[nodiscard]] bool empty() const {
    return x.rows == 0 || (indices.cols == 0 && lse.data == nullptr && partials.data == nullptr);
  }
};

/// combine_topk.
struct lists_problem {
  const_matrix_ref more_values;
  const_matrix_ref more_indices;
  matrix_ref values;
  matrix_ref indices;
};

struct fold_problem {
  const_matrix_ref x;
  partials_ref partials;
  double scale;
};

struct combine_problem {
  const_partials_ref more;
  partials_ref partials;
};

/// logsumexp of states.
struct state_problem {
  const_partials_ref partials;
  vector_ref lse;
};

/// normalize and log_normalize.
struct normalize_problem {
  const_matrix_ref x;
  const_partials_ref partials;
  matrix_ref y;
  double scale;
  empty_row policy;
  bool log;
};

/// softmax and log_softmax.
inline row_problem checked_softmax(operation what, const const_matrix_ref& x, const matrix_ref& y,
                                   const softmax_options& options) {
  const char* const name = name_of(what);
  check_input({name, "x"}, x);
  check_output({name, "y"}, y, x.rows, x.cols, x.type);
  const double scale = check_scale(name, options.scale, x.type);
  check_empty_row(name, options.empty_row);
  check_overlap(name, {"x", x}, {{"y", y}}, true);
  return {what, x, y, scale, options.empty_row};
}

inline row_problem checked_logsumexp(const const_matrix_ref& x, const vector_ref& lse,
                                     const logsumexp_options& options) {
  constexpr const char* name = "logsumexp";
  check_input({name, "x"}, x);
  check_output_type({name, "lse"}, lse.type, x.type);
  const const_matrix_ref column = check_vector({name, "lse"}, lse.data, lse.type, lse.size, x.rows);
  const double scale = check_scale(name, options.scale, x.type);
  check_overlap(name, {"x", x}, {{"lse", column}}, false);
  return {operation::logsumexp, x, {lse.data, lse.type, x.rows, 1, 1}, scale, empty_row::nan};
}

inline topk_problem checked_topk(const const_matrix_ref& x, const matrix_ref& values,
                                 const matrix_ref& indices) {
  constexpr const char* name = "topk";
  check_input({name, "x"}, x);
  check_indices({name, "indices"}, indices, x);
  check_output({name, "values"}, values, x.rows, indices.cols, x.type);
  check_overlap(name, {"x", x}, {{"values", values}, {"indices", indices}}, false);
  return {.function = name, .x = x, .indices = indices, .values = values};
}

inline topk_problem checked_softmax_topk(const const_matrix_ref& x, const matrix_ref& probabilities,
                                         const matrix_ref& indices,
                                         const softmax_topk_options& options) {
  constexpr const char* name = "softmax_topk";
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
  return {.function = name,
          .x = x,
          .indices = indices,
          .values = logits,
          .probabilities = probabilities,
          .lse = lse,
          .scale = scale,
          .policy = options.empty_row};
}

inline fold_problem checked_fold(const const_matrix_ref& x_part, const partials_ref& partials,
                                 const logsumexp_options& options) {
  constexpr const char* name = "fold";
  check_input({name, "x_part"}, x_part);
  const const_matrix_ref states =
      check_partials({name, "partials"}, partials, x_part.rows, arithmetic_type(x_part.type));
  const double scale = check_scale(name, options.scale, x_part.type);
  check_overlap(name, {"x_part", x_part}, {{"partials", states}}, false);
  return {x_part, partials, scale};
}

inline combine_problem checked_combine(const const_partials_ref& more,
                                       const partials_ref& partials) {
  constexpr const char* name = "combine";
  check_state_type({name, "more"}, more.type);
  const const_matrix_ref from = check_partials({name, "more"}, more, more.size, more.type);
  const const_matrix_ref to = check_partials({name, "partials"}, partials, more.size, more.type);
  check_overlap(name, {"more", from}, {{"partials", to}}, true);
  return {more, partials};
}

/// normalize and log_normalize.
inline normalize_problem checked_normalize(bool log, const const_matrix_ref& x_part,
                                           const const_partials_ref& partials, const matrix_ref& y,
                                           const softmax_options& options) {
  const char* const name = normalize_name(log);
  check_input({name, "x_part"}, x_part);
  const const_matrix_ref states =
      check_partials({name, "partials"}, partials, x_part.rows, arithmetic_type(x_part.type));
  check_output({name, "y"}, y, x_part.rows, x_part.cols, x_part.type);
  const double scale = check_scale(name, options.scale, x_part.type);
  check_empty_row(name, options.empty_row);
  check_overlap(name, {"x_part", x_part}, {{"y", y}}, true);
  check_overlap(name, {"partials", states}, {{"y", y}}, false);
  return {x_part, partials, y, scale, options.empty_row, log};
}

inline state_problem checked_logsumexp(const const_partials_ref& partials, const vector_ref& lse) {
  check_logsumexp("logsumexp", partials, lse);
  return {partials, lse};
}

inline topk_problem checked_fold_topk(const const_matrix_ref& x_part, const partials_ref& partials,
                                      const matrix_ref& values, const matrix_ref& indices,
                                      const fold_topk_options& options) {
  constexpr const char* name = "fold_topk";
  const double scale = check_fold_topk(name, x_part, partials, values, indices, options);
  return {.function = name,
          .x = x_part,
          .indices = indices,
          .values = values,
          .partials = partials,
          .scale = scale,
          .column_offset = options.column_offset};
}

inline lists_problem checked_combine_topk(const const_matrix_ref& more_values,
                                          const const_matrix_ref& more_indices,
                                          const matrix_ref& values, const matrix_ref& indices) {
  check_combine_topk("combine_topk", more_values, more_indices, values, indices);
  return {more_values, more_indices, values, indices};
}

}  // namespace softfold::core
