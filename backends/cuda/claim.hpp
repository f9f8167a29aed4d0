// SPDX-License-Identifier: Apache-2.0
/// \file
/// Work that a launch's blocks claim piece by piece, so that those that are done early have more.
#pragma once

#include <gpu/contract.hpp>

#include <cuda/atomic>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class V>
using device_atomic = ::cuda::atomic_ref<V, ::cuda::thread_scope_device>;

/// The number of the next of so many pieces; as many or more at the end, once for each block.
/// `claimed` is 0 before and after a launch.
__device__ inline unsigned claim_piece(unsigned& claimed, unsigned pieces) {
  device_atomic<unsigned> next(claimed);
  const unsigned number = next.fetch_add(1, ::cuda::memory_order_relaxed);
  if (number == pieces + gridDim.x - 1) {  // the last claim of the launch
    next.store(0, ::cuda::memory_order_relaxed);
  }
  return number;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
