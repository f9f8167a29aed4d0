// SPDX-License-Identifier: Apache-2.0
/// \file
/// The plan and launch of every entry point on a GPU, asynchronous, in the order of the executor's
/// stream. Throw error(invalid_argument) for memory that the device cannot reach.
#pragma once

#include "executor.hpp"

#include <core/problem.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

void run(executor& on, const core::row_problem& p);
void run(executor& on, const core::topk_problem& p);
void run(executor& on, const core::fold_problem& p);
void run(executor& on, const core::combine_problem& p);
void run(executor& on, const core::normalize_problem& p);
void run(executor& on, const core::state_problem& p);
void run(executor& on, const core::lists_problem& p);

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
