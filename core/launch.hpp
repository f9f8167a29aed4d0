// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a backend defines for the entry points: the plan and launch of checked problems, in the
/// order of a queue's work.
#pragma once

#include <core/problem.hpp>

#include <softfold/queue.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {

void launch(queue& q, const core::row_problem& p);
void launch(queue& q, const core::topk_problem& p);
void launch(queue& q, const core::fold_problem& p);
void launch(queue& q, const core::combine_problem& p);
void launch(queue& q, const core::normalize_problem& p);
void launch(queue& q, const core::state_problem& p);
void launch(queue& q, const core::lists_problem& p);

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
