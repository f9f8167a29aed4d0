// SPDX-License-Identifier: Apache-2.0
/// \file
/// Every entry point of softfold.hpp: check, then the plan and launch of the backend.
#include <core/launch.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {

void softmax(queue& q, const_matrix_ref x, matrix_ref y, const softmax_options& options) {
  launch(q, core::checked_softmax(core::operation::softmax, x, y, options));
}

void log_softmax(queue& q, const_matrix_ref x, matrix_ref y, const softmax_options& options) {
  launch(q, core::checked_softmax(core::operation::log_softmax, x, y, options));
}

void logsumexp(queue& q, const_matrix_ref x, vector_ref lse, const logsumexp_options& options) {
  launch(q, core::checked_logsumexp(x, lse, options));
}

void topk(queue& q, const_matrix_ref x, matrix_ref values, matrix_ref indices) {
  launch(q, core::checked_topk(x, values, indices));
}

void softmax_topk(queue& q, const_matrix_ref x, matrix_ref probabilities, matrix_ref indices,
                  const softmax_topk_options& options) {
  launch(q, core::checked_softmax_topk(x, probabilities, indices, options));
}

void fold(queue& q, const_matrix_ref x_part, partials_ref partials,
          const logsumexp_options& options) {
  launch(q, core::checked_fold(x_part, partials, options));
}

void combine(queue& q, const_partials_ref more, partials_ref partials) {
  launch(q, core::checked_combine(more, partials));
}

void normalize(queue& q, const_matrix_ref x_part, const_partials_ref partials, matrix_ref y,
               const softmax_options& options) {
  launch(q, core::checked_normalize(false, x_part, partials, y, options));
}

void log_normalize(queue& q, const_matrix_ref x_part, const_partials_ref partials, matrix_ref y,
                   const softmax_options& options) {
  launch(q, core::checked_normalize(true, x_part, partials, y, options));
}

void logsumexp(queue& q, const_partials_ref partials, vector_ref lse) {
  launch(q, core::checked_logsumexp(partials, lse));
}

void fold_topk(queue& q, const_matrix_ref x_part, partials_ref partials, matrix_ref values,
               matrix_ref indices, const fold_topk_options& options) {
  launch(q, core::checked_fold_topk(x_part, partials, values, indices, options));
}

void combine_topk(queue& q, const_matrix_ref more_values, const_matrix_ref more_indices,
                  matrix_ref values, matrix_ref indices) {
  launch(q, core::checked_combine_topk(more_values, more_indices, values, indices));
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
