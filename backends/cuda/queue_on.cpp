// SPDX-License-Identifier: Apache-2.0
#include <gpu/queue_state.hpp>

#include <core/run.hpp>

#include <softfold/cuda.hpp>

namespace softfold {
inline namespace cuda {

queue queue_on(CUstream_st* stream) {
  return queue(std::make_unique<queue::state>(gpu::runtime::device(), stream));
}

queue queue_on_stream(const char* /*function*/, void* stream) {
  return queue_on(static_cast<gpu::stream_handle>(stream));
}

}  // namespace cuda
}  // namespace softfold
