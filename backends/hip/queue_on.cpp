// SPDX-License-Identifier: Apache-2.0
#include <gpu/queue_state.hpp>
#include <softfold/hip.hpp>

namespace softfold {
inline namespace hip {

queue queue_on(ihipStream_t* stream) {
  return queue(std::make_unique<queue::state>(gpu::runtime::device(), stream));
}

}  // namespace hip
}  // namespace softfold
