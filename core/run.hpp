// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a backend defines for the entry points.
#pragma once

#include <core/problem.hpp>

#include <softfold/queue.hpp>

#include <atomic>
#include <span>
#include <string>
#include <string_view>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {

/// Plans a checked problem and starts its work, in the order of the queue's.
void run(queue& q, const core::problem& p);

/// Whether a call is at work on the queue: in its state, for a queue may be moved.
std::atomic<bool>& in_use(queue& q);

/// For tests and the benchmark: the names of the plans that a queue can be made to take, wherever a
/// problem's shape has them; `name` is one of them, or empty: none in particular any more. Else it
/// throws error(invalid_argument). And the plan of the queue's last call, in words, its names among
/// them between commas; empty if the call had none to choose.
std::span<const char* const> plan_names(queue& q);
void force_plan(queue& q, std::string_view name);
std::string last_plan(queue& q);

/// A queue on a stream of the backend's runtime, which stays the caller's. `function`: the entry
/// point, for the error of backends without streams.
queue queue_on_stream(const char* function, void* stream, numerics asked);

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
