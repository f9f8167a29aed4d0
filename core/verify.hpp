// SPDX-License-Identifier: Apache-2.0
/// \file
/// verify()'s arguments as checked values.
#pragma once

#include <core/sample_problem.hpp>

#include <softfold/softfold.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>

namespace softfold::core {

/// Chains whose targets' tokens stand in `tokens`: what follows the first that was not drafted
/// goes.
struct coupled_problem {
  const_matrix_ref draft_tokens;
  matrix_ref tokens;
  vector_ref accepted;
};

/// Chains accepted by the ratio of probabilities. `sampling` has the targets' rows and parameters.
struct ratio_problem {
  sample_problem sampling;
  const_matrix_ref draft;
  const_matrix_ref draft_tokens;
  matrix_ref tokens;
  vector_ref accepted;
};

// ---- The checks.

/// The shapes of verify(): `chains` of as many drafts.
inline void check_chains(const char* name, const const_matrix_ref& target,
                         const const_matrix_ref& draft_tokens, const matrix_ref& tokens,
                         const vector_ref& accepted) {
  check_index_type({name, "draft_tokens"}, draft_tokens.type);
  check_matrix({name, "draft_tokens"}, draft_tokens);
  const std::int64_t chains = draft_tokens.rows;
  std::int64_t places = 0;
  std::int64_t rows = 0;
  if (__builtin_add_overflow(draft_tokens.cols, 1, &places) ||
      __builtin_mul_overflow(chains, places, &rows) || target.rows != rows) {
    fail(errc::invalid_argument, {name, "target"}, ".rows", std::to_string(target.rows),
         "draft_tokens.rows * (draft_tokens.cols + 1) for " + std::to_string(chains) + " x " +
             std::to_string(draft_tokens.cols) + " draft_tokens");
  }
  check_index_type({name, "tokens"}, tokens.type);
  check_shape({name, "tokens"}, tokens, chains, places);
  check_matrix({name, "tokens"}, tokens);
  check_index_type({name, "accepted"}, accepted.type);
  const const_matrix_ref counts =
      check_vector({name, "accepted"}, accepted.data, accepted.type, accepted.size, chains);
  for (const operand& input : {operand{"draft_tokens", draft_tokens}, operand{"target", target}}) {
    check_overlap(name, input, {{"tokens", tokens}, {"accepted", counts}}, false);
  }
}

/// Coupled: tokens as sample()'s, one for each of the target's rows.
inline sample_problem checked_coupled_targets(const const_matrix_ref& target,
                                              const const_matrix_ref& draft_tokens,
                                              const matrix_ref& tokens, const vector_ref& accepted,
                                              const sample_options& o) {
  constexpr const char* name = "verify";
  check_chains(name, target, draft_tokens, tokens, accepted);
  if (tokens.rows > 1 && tokens.stride != tokens.cols) {
    fail(errc::invalid_argument, {name, "tokens"}, ".stride", std::to_string(tokens.stride),
         "tokens.cols = " + std::to_string(tokens.cols) + " without draft probabilities");
  }
  return checked_sample(name, "target", target, {tokens.data, tokens.type, target.rows, 1, 1}, o,
                        {"draft_tokens", draft_tokens},
                        {"accepted", {accepted.data, accepted.type, accepted.size, 1, 1}});
}

inline ratio_problem checked_ratio(const const_matrix_ref& target, const const_matrix_ref& draft,
                                   const const_matrix_ref& draft_tokens, const matrix_ref& tokens,
                                   const vector_ref& accepted, const sample_options& o) {
  constexpr const char* name = "verify";
  check_chains(name, target, draft_tokens, tokens, accepted);
  const auto refuse = [&](const char* what, bool is_there) {
    if (is_there) {
      fail(errc::invalid_argument, {name, what}, "", "given", "nothing beside the draft's logits");
    }
  };
  refuse("log_probability", o.log_probability.data != nullptr);
  refuse("raw_log_probability", o.raw_log_probability.data != nullptr);
  refuse("lse", o.lse.data != nullptr);
  refuse("kept", o.kept.data != nullptr);
  refuse("kept_mass", o.kept_mass.data != nullptr);
  refuse("top_indices", o.top_indices.data != nullptr);
  // The parameters, and whether tokens can hold a column.
  sample_problem sampling =
      checked_sample(name, "target", target, {nullptr, tokens.type, target.rows, 0, 0}, o);
  refuse("edits", sampling.edits.any());
  sampling.weighs = true;
  if (draft.type != target.type) {
    fail(errc::unsupported_type, {name, "draft"}, ".type", name_of(draft.type),
         std::string(name_of(target.type)) + ", the type of target");
  }
  check_shape({name, "draft"}, draft, draft_tokens.rows * draft_tokens.cols, target.cols);
  check_input({name, "draft"}, draft);
  const const_matrix_ref counts = {accepted.data, accepted.type, accepted.size, 1, 1};
  check_overlap(name, {"draft", draft}, {{"tokens", tokens}, {"accepted", counts}}, false);
  each_parameter_vector(o, [&](const char* input, const const_matrix_ref& m) {
    check_overlap(name, {input, m}, {{"tokens", tokens}, {"accepted", counts}}, false);
  });
  return {sampling, draft, draft_tokens, tokens, accepted};
}

}  // namespace softfold::core
