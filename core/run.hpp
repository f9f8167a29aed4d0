// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a backend defines for the entry points.
#pragma once

#include <core/problem.hpp>

#include <softfold/queue.hpp>

#include <atomic>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {

/// Plans a checked problem and starts its work, in the order of the queue's.
void run(queue& q, const core::problem& p);

/// Whether a call is at work on the queue: in its state, for a queue may be moved.
std::atomic<bool>& in_use(queue& q);

/// A queue on a stream of the backend's runtime, which stays the caller's. `function`: the entry
/// point, for the error of backends without streams.
queue queue_on_stream(const char* function, void* stream);

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
