// SPDX-License-Identifier: Apache-2.0
#include <gpu/queue_state.hpp>

#include <core/run.hpp>

#include <softfold/cuda.hpp>

#include <utility>

namespace softfold {
inline namespace cuda {

queue queue_on(CUstream_st* stream, numerics asked) {
  auto state = std::make_unique<queue::state>(gpu::runtime::device(), stream);
  state->executor.numerics = core::numerics_of(asked);
  return queue(std::move(state));
}

queue queue_on_stream(const char* /*function*/, void* stream, numerics asked) {
  return queue_on(static_cast<gpu::stream_handle>(stream), asked);
}

}  // namespace cuda
}  // namespace softfold
