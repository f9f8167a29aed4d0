// SPDX-License-Identifier: Apache-2.0
/// \file
/// Each entry point's arguments as one checked value: what an entry hands from its check to its
/// plan and launch, the same in every backend.
#pragma once

#include <core/attention_problem.hpp>
#include <core/check_edits.hpp>
#include <core/check_lists.hpp>
#include <core/edits.hpp>
#include <core/sample_parts.hpp>
#include <core/sample_problem.hpp>
#include <core/verify.hpp>

#include <softfold/softfold.hpp>

#include <algorithm>
#include <cstdint>
#include <variant>

namespace softfold::core {

enum class operation : std::uint8_t { softmax, log_softmax, logsumexp };

/// The entry point.
constexpr const char* name_of(operation what) {
  return what == operation::softmax       ? "softmax"
         : what == operation::log_softmax ? "log_softmax"
                                          : "logsumexp";
}

constexpr const char* normalize_name(bool log) { return log ? "log_normalize" : "normalize"; }
constexpr const char* backward_name(bool log) {
  return log ? "log_softmax_backward" : "softmax_backward";
}

/// softmax, log_softmax and logsumexp.
struct row_problem {
  operation what;
  const_matrix_ref x;
  matrix_ref y;  ///< logsumexp: [rows, 1]
  double scale;
  empty_row policy;
  core::edits edits = {};
  /// If it has data, the rows that x's elements are some of: softmax of a list. On reproducible
  /// executors only.
  const_matrix_ref whole = {};
};

/// softmax_backward and log_softmax_backward.
struct backward_problem {
  bool log;
  const_matrix_ref y;
  const_matrix_ref dy;
  matrix_ref dx;
  double scale;
  core::edits edits = {};
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
  core::edits edits = {};
  bool makes_parts = false;  ///< fold_topk: removed elements are absent from its lists

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
  core::edits edits = {};
};

struct scan_problem {
  const_matrix_ref x;
  matrix_ref lse;
  double scale;
  bool exclusive;
  bool reverse;
  const_partials_ref carry_in;  ///< without data: none
  partials_ref carry_out;       ///< without data: not wanted
  core::edits edits = {};
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
  core::edits edits = {};
};

/// The entry points of those that have edits.
constexpr const char* function_of(const row_problem& p) { return name_of(p.what); }
constexpr const char* function_of(const backward_problem& p) { return backward_name(p.log); }
constexpr const char* function_of(const topk_problem& p) { return p.function; }
constexpr const char* function_of(const fold_problem&) { return "fold"; }
constexpr const char* function_of(const scan_problem&) { return "scan"; }
constexpr const char* function_of(const normalize_problem& p) { return normalize_name(p.log); }

/// Every kind of problem: the one list of them. Who runs problems has a `run` for each.
using problem =
    std::variant<row_problem, backward_problem, topk_problem, lists_problem, fold_problem,
                 combine_problem, state_problem, normalize_problem, scan_problem, sample_problem,
                 fold_sample_problem, combine_sample_problem, finish_sample_problem,
                 coupled_problem, ratio_problem, attention_problem, combine_attention_problem,
                 normalize_attention_problem>;

/// softmax and log_softmax.
inline row_problem checked_softmax(operation what, const const_matrix_ref& x, const matrix_ref& y,
                                   const softmax_options& options) {
  const char* const name = name_of(what);
  check_input({name, "x"}, x);
  check_output({name, "y"}, y, x.rows, x.cols, x.type);
  const double scale = check_scale(name, options.scale, x.type);
  check_empty_row(name, options.empty_row);
  check_overlap(name, {"x", x}, {{"y", y}}, true);
  return {what, x, y, scale, options.empty_row, checked_edits(name, options.edits, x, {{"y", y}})};
}

inline row_problem checked_logsumexp(const const_matrix_ref& x, const vector_ref& lse,
                                     const logsumexp_options& options) {
  constexpr const char* name = "logsumexp";
  check_input({name, "x"}, x);
  check_output_type({name, "lse"}, lse.type, x.type);
  const const_matrix_ref column = check_vector({name, "lse"}, lse.data, lse.type, lse.size, x.rows);
  const double scale = check_scale(name, options.scale, x.type);
  check_overlap(name, {"x", x}, {{"lse", column}}, false);
  return {operation::logsumexp,
          x,
          {lse.data, lse.type, x.rows, 1, 1},
          scale,
          empty_row::nan,
          checked_edits(name, options.edits, x, {{"lse", column}})};
}

/// softmax_backward and log_softmax_backward.
inline backward_problem checked_backward(bool log, const const_matrix_ref& y,
                                         const const_matrix_ref& dy, const matrix_ref& dx,
                                         const backward_options& options) {
  const char* const name = backward_name(log);
  check_input({name, "y"}, y);
  if (dy.type != y.type) {
    fail(errc::unsupported_type, {name, "dy"}, ".type", name_of(dy.type),
         std::string(name_of(y.type)) + ", the type of y");
  }
  check_shape({name, "dy"}, dy, y.rows, y.cols);
  check_input({name, "dy"}, dy);
  check_output({name, "dx"}, dx, y.rows, y.cols, y.type);
  const double scale = check_scale(name, options.scale, y.type);
  check_overlap(name, {"y", y}, {{"dx", dx}}, true);
  check_overlap(name, {"dy", dy}, {{"dx", dx}}, true);
  return {log, y, dy, dx, scale, checked_removals(name, options.edits, y, {{"dx", dx}})};
}

inline topk_problem checked_topk(const const_matrix_ref& x, const matrix_ref& values,
                                 const matrix_ref& indices, const topk_options& options) {
  constexpr const char* name = "topk";
  check_input({name, "x"}, x);
  check_indices({name, "indices"}, indices, x);
  check_output({name, "values"}, values, x.rows, indices.cols, x.type);
  check_overlap(name, {"x", x}, {{"values", values}, {"indices", indices}}, false);
  return {
      .function = name,
      .x = x,
      .indices = indices,
      .values = values,
      .edits = checked_edits(name, options.edits, x, {{"values", values}, {"indices", indices}})};
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
  const std::initializer_list<operand> outputs = {
      {"probabilities", probabilities},
      {"indices", indices},
      {"logits", logits.data != nullptr ? logits : matrix_ref{}},
      {"lse", lse_column}};
  check_overlap(name, {"x", x}, outputs, false);
  return {.function = name,
          .x = x,
          .indices = indices,
          .values = logits,
          .probabilities = probabilities,
          .lse = lse,
          .scale = scale,
          .policy = options.empty_row,
          .edits = checked_edits(name, options.edits, x, outputs)};
}

inline fold_problem checked_fold(const const_matrix_ref& x_part, const partials_ref& partials,
                                 const logsumexp_options& options) {
  constexpr const char* name = "fold";
  check_input({name, "x_part"}, x_part);
  const const_matrix_ref states =
      check_partials({name, "partials"}, partials, x_part.rows, arithmetic_type(x_part.type));
  const double scale = check_scale(name, options.scale, x_part.type);
  check_overlap(name, {"x_part", x_part}, {{"partials", states}}, false);
  return {x_part, partials, scale,
          checked_edits(name, options.edits, x_part, {{"partials", states}})};
}

inline scan_problem checked_scan(const const_matrix_ref& x, const matrix_ref& lse,
                                 const scan_options& options) {
  constexpr const char* name = "scan";
  check_input({name, "x"}, x);
  check_output({name, "lse"}, lse, x.rows, x.cols, x.type);
  const double scale = check_scale(name, options.scale, x.type);
  const auto states = [&](const char* argument, const const_partials_ref& p) {
    return p.data == nullptr && p.size == 0
               ? const_matrix_ref{}
               : check_rounded_partials({name, argument}, p, x.rows, arithmetic_type(x.type));
  };
  const const_matrix_ref before = states("carry_in", options.carry_in);
  const const_matrix_ref after = states("carry_out", options.carry_out);
  check_overlap(name, {"x", x}, {{"lse", lse}}, true);
  check_overlap(name, {"x", x}, {{"carry_out", after}}, false);
  check_overlap(name, {"carry_in", before}, {{"lse", lse}}, false);
  check_overlap(name, {"carry_in", before}, {{"carry_out", after}}, true);
  check_overlap(name, {"lse", lse}, {{"carry_out", after}}, false);
  return {x,
          lse,
          scale,
          options.exclusive,
          options.reverse,
          options.carry_in,
          options.carry_out,
          checked_edits(name, options.edits, x, {{"lse", lse}, {"carry_out", after}})};
}

inline combine_problem checked_combine(const const_partials_ref& more,
                                       const partials_ref& partials) {
  constexpr const char* name = "combine";
  check_state_type({name, "more"}, more.type);
  const const_matrix_ref from = check_partials({name, "more"}, more, more.size, more.type);
  const const_matrix_ref to = check_partials({name, "partials"}, partials, more.size, more.type);
  if (partials.sum != more.sum) {
    const auto text = [](sum_kind sum) { return sum == sum_kind::exact ? "exact" : "rounded"; };
    fail(errc::unsupported_type, {name, "partials"}, ".sum", text(partials.sum),
         std::string(text(more.sum)) + ", as that of more");
  }
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
  return {x_part,
          partials,
          y,
          scale,
          options.empty_row,
          log,
          checked_edits(name, options.edits, x_part, {{"y", y}})};
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
          .column_offset = options.column_offset,
          .edits = checked_edits(
              name, options.edits, x_part,
              {{"partials", states_matrix(partials)}, {"values", values}, {"indices", indices}}),
          .makes_parts = true};
}

inline lists_problem checked_combine_topk(const const_matrix_ref& more_values,
                                          const const_matrix_ref& more_indices,
                                          const matrix_ref& values, const matrix_ref& indices) {
  check_combine_topk("combine_topk", more_values, more_indices, values, indices);
  return {more_values, more_indices, values, indices};
}

}  // namespace softfold::core
