// SPDX-License-Identifier: Apache-2.0
/// \file
/// Work that a launch's blocks claim share by share, so that those that are done early have more.
#pragma once

#include "atomic.hpp"

#include <gpu/contract.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The number of the next of `shares` shares. Each block claims until it gets that or more, and
/// no more then: the last such claim makes `claimed` 0 again, as it is before a launch.
__device__ inline unsigned claim_next(unsigned& claimed, unsigned shares) {
  device_atomic<unsigned> next(claimed);
  const unsigned number = next.fetch_add(1, ::cuda::memory_order_relaxed);
  if (number == shares + gridDim.x - 1) {
    next.store(0, ::cuda::memory_order_relaxed);
  }
  return number;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
