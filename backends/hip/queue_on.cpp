// SPDX-License-Identifier: Apache-2.0
#include <gpu/queue_state.hpp>

#include <core/run.hpp>

#include <softfold/hip.hpp>

#include <utility>

namespace softfold {
inline namespace hip {

queue queue_on(ihipStream_t* stream, numerics asked) {
  auto state = std::make_unique<queue::state>(gpu::runtime::device(), stream);
  state->executor.numerics = core::numerics_of(asked);
  return queue(std::move(state));
}

queue queue_on_stream(const char* /*function*/, void* stream, numerics asked) {
  return queue_on(static_cast<gpu::stream_handle>(stream), asked);
}

}  // namespace hip
}  // namespace softfold
