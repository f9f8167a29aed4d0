// SPDX-License-Identifier: Apache-2.0
/// \file
/// The HIP backend's own part of the interface: queues on the program's streams. Needs no header
/// of HIP.
#pragma once

#include <softfold/queue.hpp>

struct ihipStream_t;  // what a hipStream_t points to

namespace softfold {
inline namespace hip {

/// A queue whose calls go to `stream`, of the device that is current now; null is the default
/// stream. The stream stays the caller's and must live as long as the queue. Calls can be captured
/// in a graph once the queue's scratch memory has grown: by the same call before, or reserve(). The
/// graph keeps that memory, until the queue's end: its replays and other calls on the queue must
/// not run at the same time.
SOFTFOLD_API queue queue_on(ihipStream_t* stream, numerics asked = numerics::fast);

}  // namespace hip
}  // namespace softfold
