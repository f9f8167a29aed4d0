// SPDX-License-Identifier: Apache-2.0
/// \file
/// The plan and launch of every entry point on host memory. Each is complete on return.
#pragma once

#include "executor.hpp"

#include <core/problem.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

void launch(executor& threads, const core::row_problem& p);
void launch(executor& threads, const core::topk_problem& p);
void launch(executor& threads, const core::fold_problem& p);
void launch(executor& threads, const core::combine_problem& p);
void launch(executor& threads, const core::normalize_problem& p);
void launch(executor& threads, const core::state_problem& p);
void launch(executor& threads, const core::lists_problem& p);

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
