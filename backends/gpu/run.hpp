// SPDX-License-Identifier: Apache-2.0
/// \file
/// Every problem on a GPU: its plan, then its kernels, asynchronous, in the order of the executor's
/// stream. Throw error(invalid_argument) for memory that the device cannot reach.
#pragma once

#include <gpu/executor.hpp>

#include <core/problem.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

void run(executor& on, const core::problem& p);

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
