// SPDX-License-Identifier: Apache-2.0
#include <gpu/queue_state.hpp>
#include <softfold/cuda.hpp>

namespace softfold {
inline namespace cuda {

queue queue_on(CUstream_st* stream) {
  return queue(std::make_unique<queue::state>(gpu::runtime::device(), stream));
}

}  // namespace cuda
}  // namespace softfold
