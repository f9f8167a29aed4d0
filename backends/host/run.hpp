// SPDX-License-Identifier: Apache-2.0
/// \file
/// Every problem on host memory: its edits, its plan, then its work. Each is complete on return.
#pragma once

#include <backends/host/executor.hpp>

#include <core/edited.hpp>
#include <core/problem.hpp>

#include <string>
#include <string_view>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

void run_softmax(executor& on, const core::row_problem& p);  ///< and log-softmax
void run_logsumexp(executor& on, const core::row_problem& p);
void run_backward(executor& on, const core::backward_problem& p);
void run_topk(executor& on, const core::topk_problem& p);

/// The same with results as core/reproducible.hpp has them.
void run_reproducible_softmax(executor& on, const core::row_problem& p);
void run_reproducible_logsumexp(executor& on, const core::row_problem& p);
void run_reproducible_backward(executor& on, const core::backward_problem& p);
void run_reproducible_topk(executor& on, const core::topk_problem& p);

/// The same with states that have exact sums: as core/exact_state.hpp has them.
void run_exact(executor& on, const core::topk_problem& p);
void run_exact(executor& on, const core::fold_problem& p);
void run_exact(executor& on, const core::combine_problem& p);
void run_exact(executor& on, const core::state_problem& p);
void run_exact(executor& on, const core::normalize_problem& p);

inline bool is_reproducible(const executor& on) { return on.numerics == numerics::reproducible; }

inline void run(executor& on, const core::row_problem& p) {
  if (is_reproducible(on)) {
    p.what == core::operation::logsumexp ? run_reproducible_logsumexp(on, p)
                                         : run_reproducible_softmax(on, p);
  } else {
    p.what == core::operation::logsumexp ? run_logsumexp(on, p) : run_softmax(on, p);
  }
}
inline void run(executor& on, const core::backward_problem& p) {
  is_reproducible(on) ? run_reproducible_backward(on, p) : run_backward(on, p);
}
inline void run(executor& on, const core::topk_problem& p) {
  if (p.partials.sum == sum_kind::exact) {
    return run_exact(on, p);
  }
  const bool results_of_whole = p.probabilities.data != nullptr || p.lse.data != nullptr;
  is_reproducible(on) && results_of_whole ? run_reproducible_topk(on, p) : run_topk(on, p);
}
void run(executor& on, const core::lists_problem& p);
void run(executor& on, const core::fold_problem& p);
void run(executor& on, const core::scan_problem& p);
void run(executor& on, const core::combine_problem& p);
void run(executor& on, const core::state_problem& p);
void run(executor& on, const core::normalize_problem& p);
void run(executor& on, const core::sample_problem& p);
void run(executor& on, const core::fold_sample_problem& p);
void run(executor& on, const core::combine_sample_problem& p);
void run(executor& on, const core::finish_sample_problem& p);
void run(executor& on, const core::coupled_problem& p);
void run(executor& on, const core::ratio_problem& p);
void run(executor& on, const core::attention_problem& p);
void run(executor& on, const core::combine_attention_problem& p);
void run(executor& on, const core::normalize_attention_problem& p);

/// What core::edited_run asks of a backend.
struct edited_rows {
  executor& on;

  [[nodiscard]] std::byte* memory(std::size_t bytes) const { return on.edited.at_least(bytes); }
  [[nodiscard]] std::size_t batch_bytes() const {
    // One thread's stay near; more are worth sharing only if they are many.
    constexpr std::size_t near_bytes = 65536;
    return on.threads == 1 ? near_bytes
                           : on.machine.l2_bytes / 2 * static_cast<std::size_t>(on.threads);
  }
  void edit(const const_matrix_ref& x, const core::edits& edits, const matrix_ref& to,
            double removed) const;
  void narrow(const const_matrix_ref& from, const matrix_ref& to) const;
  void settle(const core::settled_lists& lists) const;
  [[nodiscard]] bool reproducible() const { return is_reproducible(on); }
  template <class Problem>
  void run(const Problem& p) const {
    host::run(on, p);
  }
};

inline void run(executor& on, const core::problem& p) {
  on.last.reset();
  edited_rows rows{on};
  std::visit([&](const auto& each) { core::run_with_edits(rows, each); }, p);
}

/// See core/run.hpp.
inline void force_plan(executor& on, std::string_view name) {
  on.forced = core::plan_named<plan_name>(name, plan_names);
}
inline std::string last_plan(const executor& on) { return on.last ? to_text(*on.last) : ""; }

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
