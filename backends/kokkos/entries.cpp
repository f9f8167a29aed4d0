// SPDX-License-Identifier: Apache-2.0
/// \file
/// Every entry point: check, then the plan and launch of the queue's execution space.
#include "queue_state.hpp"

namespace softfold {
inline namespace kokkos {

void softmax(queue& q, const_matrix_ref x, matrix_ref y, const softmax_options& options) {
  const auto p = core::check_softmax("softmax", core::operation::softmax, x, y, options);
  q.self().space->launch(p);
}

void log_softmax(queue& q, const_matrix_ref x, matrix_ref y, const softmax_options& options) {
  const auto p = core::check_softmax("log_softmax", core::operation::log_softmax, x, y, options);
  q.self().space->launch(p);
}

void logsumexp(queue& q, const_matrix_ref x, vector_ref lse, const logsumexp_options& options) {
  q.self().space->launch(core::check_logsumexp(x, lse, options));
}

void topk(queue& q, const_matrix_ref x, matrix_ref values, matrix_ref indices) {
  q.self().space->launch(core::check_topk(x, values, indices));
}

void softmax_topk(queue& q, const_matrix_ref x, matrix_ref probabilities, matrix_ref indices,
                  const softmax_topk_options& options) {
  q.self().space->launch(core::check_softmax_topk(x, probabilities, indices, options));
}

void fold(queue& q, const_matrix_ref x_part, partials_ref partials,
          const logsumexp_options& options) {
  q.self().space->launch(core::check_fold(x_part, partials, options));
}

void combine(queue& q, const_partials_ref more, partials_ref partials) {
  q.self().space->launch(core::check_combine(more, partials));
}

void normalize(queue& q, const_matrix_ref x_part, const_partials_ref partials, matrix_ref y,
               const softmax_options& options) {
  q.self().space->launch(core::check_normalize(x_part, partials, y, options));
}

}  // namespace kokkos
}  // namespace softfold
