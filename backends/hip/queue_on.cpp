// SPDX-License-Identifier: Apache-2.0
#include <gpu/queue_state.hpp>

#include <core/run.hpp>

#include <softfold/hip.hpp>

namespace softfold {
inline namespace hip {

queue queue_on(ihipStream_t* stream) {
  return queue(std::make_unique<queue::state>(gpu::runtime::device(), stream));
}

queue queue_on_stream(const char* /*function*/, void* stream) {
  return queue_on(static_cast<gpu::stream_handle>(stream));
}

}  // namespace hip
}  // namespace softfold
