// SPDX-License-Identifier: Apache-2.0
/// \file
/// Every entry point of softfold.hpp: check, then what the backend does with the problem.
#include <core/floating_point.hpp>
#include <core/run.hpp>

#include <softfold/attention.hpp>
#include <softfold/error.hpp>

#include <atomic>
#include <string>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace {

/// A queue's mark that a call is at work on it, from construction to destruction.
class queue_use {
 public:
  queue_use(queue& q, const char* function) : mark_(in_use(q)) {
    if (mark_.exchange(true, std::memory_order_acquire)) {
      throw error(errc::invalid_argument,
                  std::string(function) +
                      ": the queue is in use by another thread, expected one "
                      "queue for each thread");
    }
  }
  ~queue_use() { mark_.store(false, std::memory_order_release); }
  queue_use(const queue_use&) = delete;
  queue_use& operator=(const queue_use&) = delete;

 private:
  std::atomic<bool>& mark_;
};

/// Each check() makes a problem. It rounds the scale, so that the caller's floating-point
/// environment is put aside before it.
template <class... Check>
void enter(queue& q, const char* function, const Check&... check) {
  const core::default_floating_point environment;
  const queue_use use(q, function);
  (run(q, check()), ...);
}

}  // namespace

void softmax(queue& q, const_matrix_ref x, matrix_ref y, const softmax_options& options) {
  enter(q, "softmax",
        [&] { return core::checked_softmax(core::operation::softmax, x, y, options); });
}

void log_softmax(queue& q, const_matrix_ref x, matrix_ref y, const softmax_options& options) {
  enter(q, "log_softmax",
        [&] { return core::checked_softmax(core::operation::log_softmax, x, y, options); });
}

void logsumexp(queue& q, const_matrix_ref x, vector_ref lse, const logsumexp_options& options) {
  enter(q, "logsumexp", [&] { return core::checked_logsumexp(x, lse, options); });
}

void scan(queue& q, const_matrix_ref x, matrix_ref lse, const scan_options& options) {
  enter(q, "scan", [&] { return core::checked_scan(x, lse, options); });
}

void softmax_backward(queue& q, const_matrix_ref y, const_matrix_ref dy, matrix_ref dx,
                      const backward_options& options) {
  enter(q, "softmax_backward", [&] { return core::checked_backward(false, y, dy, dx, options); });
}

void log_softmax_backward(queue& q, const_matrix_ref y, const_matrix_ref dy, matrix_ref dx,
                          const backward_options& options) {
  enter(q, "log_softmax_backward",
        [&] { return core::checked_backward(true, y, dy, dx, options); });
}

void topk(queue& q, const_matrix_ref x, matrix_ref values, matrix_ref indices,
          const topk_options& options) {
  enter(q, "topk", [&] { return core::checked_topk(x, values, indices, options); });
}

void softmax_topk(queue& q, const_matrix_ref x, matrix_ref probabilities, matrix_ref indices,
                  const softmax_topk_options& options) {
  enter(q, "softmax_topk",
        [&] { return core::checked_softmax_topk(x, probabilities, indices, options); });
}

void fold(queue& q, const_matrix_ref x_part, partials_ref partials,
          const logsumexp_options& options) {
  enter(q, "fold", [&] { return core::checked_fold(x_part, partials, options); });
}

void combine(queue& q, const_partials_ref more, partials_ref partials) {
  enter(q, "combine", [&] { return core::checked_combine(more, partials); });
}

void normalize(queue& q, const_matrix_ref x_part, const_partials_ref partials, matrix_ref y,
               const softmax_options& options) {
  enter(q, "normalize",
        [&] { return core::checked_normalize(false, x_part, partials, y, options); });
}

void log_normalize(queue& q, const_matrix_ref x_part, const_partials_ref partials, matrix_ref y,
                   const softmax_options& options) {
  enter(q, "log_normalize",
        [&] { return core::checked_normalize(true, x_part, partials, y, options); });
}

void logsumexp(queue& q, const_partials_ref partials, vector_ref lse) {
  enter(q, "logsumexp", [&] { return core::checked_logsumexp(partials, lse); });
}

void fold_topk(queue& q, const_matrix_ref x_part, partials_ref partials, matrix_ref values,
               matrix_ref indices, const fold_topk_options& options) {
  enter(q, "fold_topk",
        [&] { return core::checked_fold_topk(x_part, partials, values, indices, options); });
}

void combine_topk(queue& q, const_matrix_ref more_values, const_matrix_ref more_indices,
                  matrix_ref values, matrix_ref indices) {
  enter(q, "combine_topk",
        [&] { return core::checked_combine_topk(more_values, more_indices, values, indices); });
}

void sample(queue& q, const_matrix_ref x, matrix_ref tokens, const sample_options& options) {
  enter(q, "sample", [&] { return core::checked_sample("sample", "x", x, tokens, options); });
}

void fold_sample(queue& q, const_matrix_ref x_part, sample_states_ref states, matrix_ref values,
                 matrix_ref indices, const fold_sample_options& options) {
  enter(q, "fold_sample",
        [&] { return core::checked_fold_sample(x_part, states, values, indices, options); });
}

void combine_sample(queue& q, const_sample_states_ref more, const_matrix_ref more_values,
                    const_matrix_ref more_indices, sample_states_ref states, matrix_ref values,
                    matrix_ref indices) {
  enter(q, "combine_sample", [&] {
    return core::checked_combine_sample(more, more_values, more_indices, states, values, indices);
  });
}

void combine_sample(queue& q, const_sample_states_ref more, sample_states_ref states) {
  combine_sample(q, more, {}, {}, states, {}, {});
}

void finish_sample(queue& q, const_sample_states_ref states, const_matrix_ref values,
                   const_matrix_ref indices, vector_ref tokens,
                   const finish_sample_options& options) {
  enter(q, "finish_sample", [&] {
    return core::checked_finish_sample("finish_sample", states, values, indices, tokens, options);
  });
}

void finish_sample(queue& q, const_sample_states_ref states, vector_ref tokens,
                   const finish_sample_options& options) {
  finish_sample(q, states, {}, {}, tokens, options);
}

void verify(queue& q, const_matrix_ref target, const_matrix_ref draft,
            const_matrix_ref draft_tokens, matrix_ref tokens, vector_ref accepted,
            const sample_options& options) {
  constexpr const char* name = "verify";
  if (draft.data != nullptr || draft.rows != 0 || draft.cols != 0) {
    enter(q, name, [&] {
      return core::checked_ratio(target, draft, draft_tokens, tokens, accepted, options);
    });
    return;
  }
  enter(
      q, name,
      [&] {
        return core::checked_coupled_targets(target, draft_tokens, tokens, accepted, options);
      },
      [&] {
        return core::coupled_problem{draft_tokens, tokens, accepted};
      });
}

void attention(queue& q, const_tensor_ref query, const_tensor_ref key, const_tensor_ref value,
               tensor_ref out, const attention_options& options) {
  enter(q, "attention", [&] { return core::checked_attention(query, key, value, out, options); });
}

void fold_attention(queue& q, const_tensor_ref query, const_tensor_ref key, const_tensor_ref value,
                    partials_ref states, tensor_ref weighted, const attention_options& options) {
  enter(q, "fold_attention",
        [&] { return core::checked_fold_attention(query, key, value, states, weighted, options); });
}

void combine(queue& q, const_partials_ref more, const_tensor_ref more_weighted, partials_ref states,
             tensor_ref weighted) {
  enter(q, "combine",
        [&] { return core::checked_combine_attention(more, more_weighted, states, weighted); });
}

void normalize(queue& q, const_partials_ref states, const_tensor_ref weighted, tensor_ref out,
               softfold::empty_row empty_row) {
  enter(q, "normalize",
        [&] { return core::checked_normalize_attention(states, weighted, out, empty_row); });
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
