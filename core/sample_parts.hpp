// SPDX-License-Identifier: Apache-2.0
/// \file
/// Sampling from rows in parts: the arguments of fold_sample, combine_sample and finish_sample as
/// checked values.
#pragma once

#include <core/check_edits.hpp>
#include <core/check_lists.hpp>
#include <core/sample_problem.hpp>

#include <softfold/softfold.hpp>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>

namespace softfold::core {

/// Lists without data have k = 0.
struct fold_sample_problem {
  const_matrix_ref x;
  sample_states_ref states;
  matrix_ref values;
  matrix_ref indices;
  fold_sample_options options;
  core::edits edits = {};
};

struct combine_sample_problem {
  const_sample_states_ref more;
  const_matrix_ref more_values;
  const_matrix_ref more_indices;
  sample_states_ref states;
  matrix_ref values;
  matrix_ref indices;
};

/// Outputs without data are not wanted.
struct finish_sample_problem {
  const_sample_states_ref states;
  const_matrix_ref values;
  const_matrix_ref indices;
  vector_ref tokens;
  finish_sample_options options;
};

constexpr const char* function_of(const fold_sample_problem&) { return "fold_sample"; }

// ---- The checks.

/// Columns of a row that is folded in parts: as many digits as a word of a sum adds up.
inline constexpr std::int64_t most_part_columns = std::numeric_limits<std::int32_t>::max();

/// States as bytes, for the overlap check; of none if there are none.
inline const_matrix_ref bytes_of(const const_sample_states_ref& s) {
  constexpr std::int64_t bytes = sizeof(sample_state);
  return {s.data, dtype::u8, s.data == nullptr ? 0 : s.size, bytes, bytes};
}

inline void check_sample_states(argument arg, const const_sample_states_ref& s, std::int64_t rows) {
  if (s.size != rows) {
    fail(errc::invalid_argument, arg, ".size", std::to_string(s.size), std::to_string(rows));
  }
  constexpr std::int64_t words = sizeof(sample_state) / sizeof(std::uint64_t);
  check_matrix(arg, {s.data, dtype::i64, rows, words, words});
}

/// Lists beside states: both or neither.
inline bool has_lists(const const_matrix_ref& values, const const_matrix_ref& indices) {
  return values.data != nullptr || indices.data != nullptr || values.cols != 0 || indices.cols != 0;
}

/// What a state can keep: filters among the k entries of its list, one of an offset's draws.
template <class Options>
void check_part_parameters(const char* name, const Options& o, argument list_arg,
                           const std::string& list_property, std::int64_t k) {
  if (o.draw < 0 || o.draw >= sampling::most_draws) {
    fail(errc::invalid_argument, {name, "draw"}, "", std::to_string(o.draw), "0 to 2^21 - 1");
  }
  const bool one_k = o.top_ks.data == nullptr;
  if (one_k && o.top_k > k) {
    fail(errc::invalid_argument, list_arg, list_property, std::to_string(k),
         "at least top_k = " + std::to_string(o.top_k));
  }
  const auto check_filter = [&](const char* filter, const const_vector_ref& each, double value,
                                double off) {
    if (one_k && o.top_k == 0 && each.data == nullptr && value != off) {
      fail(errc::invalid_argument, {name, filter}, "", text_of(value),
           text_of(off) + ", or a top_k that limits what a state has to keep");
    }
  };
  check_filter("top_p", o.top_ps, o.top_p, 1);
  check_filter("min_p", o.min_ps, o.min_p, 0);
}

inline fold_sample_problem checked_fold_sample(const const_matrix_ref& x,
                                               const sample_states_ref& states,
                                               const matrix_ref& values, const matrix_ref& indices,
                                               const fold_sample_options& o) {
  constexpr const char* name = "fold_sample";
  check_input({name, "x_part"}, x);
  check_sample_states({name, "states"}, states, x.rows);
  const std::int64_t end = check_column_offset(name, o.column_offset, x.cols);
  if (end > most_part_columns) {
    fail(errc::invalid_argument, {name, "column_offset + x_part.cols"}, "", std::to_string(end),
         "at most 2^31 - 1");
  }
  check_sample_parameters(name, o, arithmetic_type(x.type), x.rows);
  const bool lists = has_lists(values, indices);
  if (lists) {
    check_part_indices({name, "indices"}, indices, x, o.column_offset);
    check_output({name, "values"}, values, x.rows, indices.cols, x.type);
  }
  check_part_parameters(name, o, {name, "indices"}, ".cols (k)", values.cols);
  const std::initializer_list<operand> outputs = {{"states", bytes_of(states)},
                                                  {"values", lists ? values : matrix_ref{}},
                                                  {"indices", lists ? indices : matrix_ref{}}};
  const auto check_apart = [&](const char* input, const const_matrix_ref& m) {
    check_overlap(name, {input, m}, outputs, false);
  };
  check_apart("x_part", x);
  each_parameter_vector(o, check_apart);
  const core::edits edits = checked_edits(name, o.edits, x, outputs);
  if (lists && edits.changes_values() && values.type != arithmetic_type(x.type)) {
    fail(errc::unsupported_type, {name, "values"}, ".type", name_of(values.type),
         std::string(name_of(arithmetic_type(x.type))) +
             " with edits that change values, which a narrower type would round");
  }
  return {x, states, values, indices, o, edits};
}

inline combine_sample_problem checked_combine_sample(const const_sample_states_ref& more,
                                                     const const_matrix_ref& more_values,
                                                     const const_matrix_ref& more_indices,
                                                     const sample_states_ref& states,
                                                     const matrix_ref& values,
                                                     const matrix_ref& indices) {
  constexpr const char* name = "combine_sample";
  check_sample_states({name, "more"}, more, more.size);
  check_sample_states({name, "states"}, states, more.size);
  const bool lists = has_lists(values, indices) || has_lists(more_values, more_indices);
  if (lists) {
    check_combine_topk(name, more_values, more_indices, values, indices);
    check_shape({name, "more_values"}, more_values, more.size, more_values.cols);
  }
  const auto if_any = [&](const const_matrix_ref& m) { return lists ? m : const_matrix_ref{}; };
  for (const operand& input :
       {operand{"more", bytes_of(more)}, operand{"more_values", if_any(more_values)},
        operand{"more_indices", if_any(more_indices)}}) {
    check_overlap(
        name, input,
        {{"states", bytes_of(states)}, {"values", if_any(values)}, {"indices", if_any(indices)}},
        false);
  }
  return {more, more_values, more_indices, states, values, indices};
}

inline finish_sample_problem checked_finish_sample(
    const char* name, const const_sample_states_ref& states, const const_matrix_ref& values,
    const const_matrix_ref& indices, const vector_ref& tokens, const finish_sample_options& o) {
  const std::int64_t rows = states.size;
  check_sample_states({name, "states"}, states, rows);
  const bool lists = has_lists(values, indices);
  if (lists) {
    check_list({name, "values"}, values, {name, "indices"}, indices, rows, values.cols);
  }
  check_index_type({name, "tokens"}, tokens.type);
  const const_matrix_ref to =
      check_vector({name, "tokens"}, tokens.data, tokens.type, tokens.size, rows);
  const auto column = [&](const char* output, const vector_ref& v, bool counts) {
    if (v.data == nullptr) {
      return const_matrix_ref{};
    }
    if (counts) {
      check_index_type({name, output}, v.type);
    } else if (v.type != dtype::f32 && v.type != dtype::f64) {
      fail(errc::unsupported_type, {name, output}, ".type", name_of(v.type), "f32 or f64");
    }
    return check_vector({name, output}, v.data, v.type, v.size, rows);
  };
  const const_matrix_ref log = column("log_probability", o.log_probability, false);
  const const_matrix_ref raw = column("raw_log_probability", o.raw_log_probability, false);
  const const_matrix_ref lse = column("lse", o.lse, false);
  const const_matrix_ref kept = column("kept", o.kept, true);
  const const_matrix_ref kept_mass = column("kept_mass", o.kept_mass, false);
  const auto if_any = [&](const const_matrix_ref& m) { return lists ? m : const_matrix_ref{}; };
  for (const operand& input :
       {operand{"states", bytes_of(states)}, operand{"values", if_any(values)},
        operand{"indices", if_any(indices)}}) {
    check_overlap(name, input,
                  {{"tokens", to},
                   {"log_probability", log},
                   {"raw_log_probability", raw},
                   {"lse", lse},
                   {"kept", kept},
                   {"kept_mass", kept_mass}},
                  false);
  }
  return {states, values, indices, tokens, o};
}

}  // namespace softfold::core
