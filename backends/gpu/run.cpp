// SPDX-License-Identifier: Apache-2.0
#include <gpu/plan/shape.hpp>
#include <gpu/run.hpp>
#include <gpu/typed.hpp>

#include <core/check.hpp>
#include <core/real_types.hpp>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

/// Memory that an argument names.
struct memory_argument {
  const char* name;
  const void* data;
};

void check_memory(const executor& on, const char* function,
                  std::initializer_list<memory_argument> arguments) {
  for (const memory_argument& a : arguments) {
    on.check_memory(function, a.name, a.data);
  }
}

/// Parameters of sampling that each row has its own of.
template <class Options>
void check_parameters(const executor& on, const char* function, const Options& o) {
  core::each_parameter_vector(o, [&](const char* name, const const_matrix_ref& values) {
    on.check_memory(function, name, values.data);
  });
}

template <class Problem>
void run_typed(executor& on, const const_matrix_ref& x, const Problem& p) {
  core::with_real(x.type, [&]<class In>(In) { run_as<In>(on, p); });
}

bool is_reproducible(const executor& on) { return on.numerics == numerics::reproducible; }

/// The same of the problems that have results as core/reproducible.hpp has them.
template <class Problem>
void run_by_numerics(executor& on, const const_matrix_ref& x, const Problem& p) {
  if (is_reproducible(on)) {
    core::with_real(x.type, [&]<class In>(In) { run_reproducibly<In>(on, p); });
  } else {
    run_typed(on, x, p);
  }
}

/// The same of those with states of either kind.
template <class Problem>
void run_by_sum(executor& on, const Problem& p) {
  if (p.partials.sum == sum_kind::exact) {
    core::with_real(p.x.type, [&]<class In>(In) { run_exactly<In>(on, p); });
  } else {
    run_typed(on, p.x, p);
  }
}

void run_each(executor& on, const core::row_problem& p) {
  const bool maps = p.what != core::operation::logsumexp;
  check_memory(on, core::name_of(p.what), {{"x", p.x.data}, {maps ? "y" : "lse", p.y.data}});
  run_by_numerics(on, p.x, p);
}

void run_each(executor& on, const core::backward_problem& p) {
  check_memory(on, core::backward_name(p.log),
               {{"y", p.y.data}, {"dy", p.dy.data}, {"dx", p.dx.data}});
  run_by_numerics(on, p.y, p);
}

void run_each(executor& on, const core::normalize_problem& p) {
  check_memory(on, core::normalize_name(p.log),
               {{"x_part", p.x.data}, {"partials", p.partials.data}, {"y", p.y.data}});
  run_by_sum(on, p);
}

void run_each(executor& on, const core::fold_problem& p) {
  check_memory(on, "fold", {{"x_part", p.x.data}, {"partials", p.partials.data}});
  run_by_sum(on, p);
}

void run_each(executor& on, const core::topk_problem& p) {
  check_memory(on, p.function,
               {{"x", p.x.data},
                {"indices", p.indices.data},
                {"values", p.values.data},
                {"probabilities", p.probabilities.data},
                {"lse", p.lse.data},
                {"partials", p.partials.data}});
  if (p.empty()) {
    return;
  }
  constexpr std::int64_t most = std::int64_t{1} << 30;
  if (p.indices.cols > most) {
    core::fail(errc::invalid_argument, {p.function, "indices"}, ".cols",
               std::to_string(p.indices.cols),
               "at most the 2^30 that this backend can choose of a row");
  }
  const core::fold_problem fold{p.x, p.partials, p.scale};
  if (p.indices.cols == 0) {  // no list is wanted, only the row's state
    if (p.lse.data != nullptr) {
      run_by_numerics(on, p.x,
                      core::row_problem{.what = core::operation::logsumexp,
                                        .x = p.x,
                                        .y = {p.lse.data, p.lse.type, p.x.rows, 1, 1},
                                        .scale = p.scale,
                                        .policy = p.policy});
    }
    if (p.partials.data != nullptr) {
      run_by_sum(on, fold);
    }
    return;
  }
  // The state of a row has the same bits with and without a list. Where the list's kernel folds the
  // row in another order, the row, a short one, is read twice, and always for an exact sum.
  core::topk_problem lists = p;
  if (p.partials.data != nullptr &&
      (p.partials.sum == sum_kind::exact ||
       !plan_topk(shape_of(p.x), p.x.rows, p.indices.cols, on.limits(), on.forced).folds_as_pass)) {
    run_by_sum(on, fold);
    lists.partials = {};
  }
  const bool wants_of_row = p.probabilities.data != nullptr || p.lse.data != nullptr;
  wants_of_row ? run_by_numerics(on, p.x, lists) : run_typed(on, p.x, lists);
}

void run_each(executor& on, const core::scan_problem& p) {
  check_memory(on, "scan",
               {{"x", p.x.data},
                {"lse", p.lse.data},
                {"carry_in", p.carry_in.data},
                {"carry_out", p.carry_out.data}});
  scan(on, p);
}

void run_each(executor& on, const core::combine_problem& p) {
  check_memory(on, "combine", {{"more", p.more.data}, {"partials", p.partials.data}});
  combine_states(on, p);
}

void run_each(executor& on, const core::state_problem& p) {
  check_memory(on, "logsumexp", {{"partials", p.partials.data}, {"lse", p.lse.data}});
  logsumexp_of_states(on, p);
}

void run_each(executor& on, const core::lists_problem& p) {
  check_memory(on, "combine_topk",
               {{"more_values", p.more_values.data},
                {"more_indices", p.more_indices.data},
                {"values", p.values.data},
                {"indices", p.indices.data}});
  combine_lists(on, p);
}

/// The lists that some rows' tokens are in.
sample_lists listed(executor& on, const core::sample_problem& p) {
  const sample_ways ways = sample_ways::of(p);
  if (!ways.may_go(sample_way::list)) {
    return {};
  }
  const dtype index = p.x.cols > std::numeric_limits<std::int32_t>::max() ? dtype::i64 : dtype::i32;
  sample_lists lists;
  core::with_real(p.x.type, [&]<class In>(In) {
    lists.spans =
        list_spans_as<In>(on,
                          {.function = "sample",
                           .x = p.x,
                           .indices = {nullptr, index, p.x.rows, ways.listed, ways.listed},
                           .values = {nullptr, p.x.type, p.x.rows, ways.listed, ways.listed}},
                          on.listed);
  });
  if (lists.spans.entries != nullptr) {
    return lists;
  }
  const auto entries = static_cast<std::size_t>(p.x.rows * ways.listed);
  const runtime::current_device current(on.device);
  auto* const memory =
      static_cast<std::byte*>(on.listed.at_least(entries * (size_of(index) + size_of(p.x.type))));
  // The wider of the two first, so that both are aligned.
  const bool values_first = size_of(p.x.type) >= size_of(index);
  std::byte* const second = memory + entries * (values_first ? size_of(p.x.type) : size_of(index));
  lists.values = {values_first ? memory : second, p.x.type, p.x.rows, ways.listed, ways.listed};
  lists.columns = {values_first ? second : memory, index, p.x.rows, ways.listed, ways.listed};
  run_each(on,
           core::topk_problem{
               .function = "sample", .x = p.x, .indices = lists.columns, .values = lists.values});
  return lists;
}

void run_each(executor& on, const core::sample_problem& p) {
  const sample_options& o = p.options;
  check_memory(on, "sample",
               {{"x", p.x.data},
                {"tokens", p.tokens.data},
                {"log_probability", o.log_probability.data},
                {"raw_log_probability", o.raw_log_probability.data},
                {"lse", o.lse.data},
                {"kept", o.kept.data},
                {"kept_mass", o.kept_mass.data},
                {"top_indices", o.top_indices.data},
                {"top_log_probabilities", o.top_log_probabilities.data}});
  check_parameters(on, "sample", o);
  if (p.empty()) {
    return;
  }
  if (o.top_indices.data != nullptr) {
    run_each(on, core::topk_problem{.function = "sample",
                                    .x = p.x,
                                    .indices = o.top_indices,
                                    .values = o.top_log_probabilities});
  }
  sample_rows(on, p, listed(on, p));
}

void run_each(executor& on, const core::attention_problem& p) {
  const attention_options& o = p.options;
  check_memory(on, core::function_of(p),
               {{"query", p.q.data},
                {"key", p.k.data},
                {"value", p.v.data},
                {p.folds ? "weighted" : "out", p.out.data},
                {"states", p.states.data},
                {"bias", o.bias.data},
                {"alibi_slopes", o.alibi_slopes.data},
                {"key_lengths", o.key_lengths.data},
                {"sinks", o.sinks.data},
                {"query_starts", o.query_starts.data},
                {"key_starts", o.key_starts.data},
                {"lse", o.lse.data}});
  attention(on, p);
}

void run_each(executor& on, const core::combine_attention_problem& p) {
  check_memory(on, "combine",
               {{"more", p.more.data},
                {"more_weighted", p.more_weighted.data},
                {"states", p.states.data},
                {"weighted", p.weighted.data}});
  combine_attention(on, p);
}

void run_each(executor& on, const core::normalize_attention_problem& p) {
  check_memory(on, "normalize",
               {{"states", p.states.data}, {"weighted", p.weighted.data}, {"out", p.out.data}});
  normalize_attention(on, p);
}

void run_each(executor& on, const core::fold_sample_problem& p) {
  const fold_sample_options& o = p.options;
  check_memory(on, "fold_sample",
               {{"x_part", p.x.data},
                {"states", p.states.data},
                {"values", p.values.data},
                {"indices", p.indices.data}});
  check_parameters(on, "fold_sample", o);
  if (p.x.rows == 0) {
    return;
  }
  if (p.values.cols > 0) {
    run_each(on, core::topk_problem{.function = "fold_sample",
                                    .x = p.x,
                                    .indices = p.indices,
                                    .values = p.values,
                                    .column_offset = o.column_offset,
                                    .makes_parts = true});
  }
  fold_sample_rows(on, p);
}

void run_each(executor& on, const core::combine_sample_problem& p) {
  check_memory(on, "combine_sample",
               {{"more", p.more.data},
                {"more_values", p.more_values.data},
                {"more_indices", p.more_indices.data},
                {"states", p.states.data},
                {"values", p.values.data},
                {"indices", p.indices.data}});
  if (p.more.size == 0) {
    return;
  }
  if (p.values.cols > 0) {
    combine_lists(on, {p.more_values, p.more_indices, p.values, p.indices});
  }
  combine_sample_rows(on, p);
}

void run_each(executor& on, const core::finish_sample_problem& p) {
  const finish_sample_options& o = p.options;
  check_memory(on, "finish_sample",
               {{"states", p.states.data},
                {"values", p.values.data},
                {"indices", p.indices.data},
                {"tokens", p.tokens.data},
                {"log_probability", o.log_probability.data},
                {"raw_log_probability", o.raw_log_probability.data},
                {"lse", o.lse.data},
                {"kept", o.kept.data},
                {"kept_mass", o.kept_mass.data}});
  if (p.states.size > 0) {
    finish_sample_rows(on, p);
  }
}

void run_each(executor& on, const core::coupled_problem& p) {
  check_memory(on, "verify",
               {{"draft_tokens", p.draft_tokens.data},
                {"tokens", p.tokens.data},
                {"accepted", p.accepted.data}});
  if (p.draft_tokens.rows > 0) {
    verify_coupled(on, p);
  }
}

void run_each(executor& on, const core::ratio_problem& p) {
  check_memory(on, "verify",
               {{"target", p.sampling.x.data},
                {"draft", p.draft.data},
                {"draft_tokens", p.draft_tokens.data},
                {"tokens", p.tokens.data},
                {"accepted", p.accepted.data}});
  check_parameters(on, "verify", p.sampling.options);
  if (p.draft_tokens.rows > 0) {
    verify_by_ratio(on, p);
  }
}

/// What core::edited_run asks of a backend.
struct edited_rows {
  executor& on;

  [[nodiscard]] std::byte* memory(std::size_t bytes) const {
    const runtime::current_device current(on.device);
    return static_cast<std::byte*>(on.edited.at_least(bytes));
  }
  [[nodiscard]] std::size_t batch_bytes() const {
    constexpr std::size_t least = std::size_t{1} << 20;  // a launch's worth, whatever the cache
    return std::max(on.properties.l2_bytes, least);
  }
  void edit(const const_matrix_ref& x, const core::edits& edits, const matrix_ref& to,
            double removed) const {
    gpu::edit(on, x, edits, to, removed);
  }
  void narrow(const const_matrix_ref& from, const matrix_ref& to) const {
    gpu::narrow(on, from, to);
  }
  void settle(const core::settled_lists& lists) const { gpu::settle(on, lists); }
  [[nodiscard]] bool reproducible() const { return is_reproducible(on); }
  template <class Problem>
  void run(const Problem& p) const {
    run_each(on, p);
  }
};

template <class Problem>
void check_edits(const executor& on, const Problem& p) {
  if constexpr (requires { p.edits; }) {
    const core::edits& e = p.edits;
    check_memory(on, core::function_of(p),
                 {{"edits.bias", e.bias.data},
                  {"edits.penalty_rows", e.penalty_rows},
                  {"edits.penalty_columns", e.penalty_columns.data},
                  {"edits.penalty_counts", e.penalty_counts},
                  {"edits.repetition", e.repetition.data},
                  {"edits.frequency", e.frequency.data},
                  {"edits.presence", e.presence.data},
                  {"edits.mask", e.mask.data},
                  {"edits.lengths", e.lengths.data}});
  }
}

/// Whether a problem's kernels make its edits as they read; else its rows are edited first.
template <class Problem>
bool edits_in_read(const Problem& p) {
  bool result = false;
  if constexpr (requires { p.partials.sum; }) {
    if (p.partials.sum == sum_kind::exact) {
      return false;
    }
  }
  if constexpr (requires { reads_edits<float>(p); }) {
    core::with_real(p.x.type, [&]<class In>(In) { result = reads_edits<In>(p); });
  } else if constexpr (requires { reads_edits(p); }) {
    result = reads_edits(p);
  }
  return result;
}

}  // namespace

void run(executor& on, const core::problem& p) {
  on.last = {};
  edited_rows rows{on};
  std::visit(
      [&](const auto& each) {
        if (core::is_edited(each)) {
          check_edits(on, each);
          if (!is_reproducible(on) && edits_in_read(each)) {
            return run_each(on, each);
          }
        }
        core::run_with_edits(rows, each);
      },
      p);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
