// SPDX-License-Identifier: Apache-2.0
/// \file
/// Words of global memory that a device's blocks change and read at the same time.
#pragma once

#include <cuda/atomic>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class V>
using device_atomic = ::cuda::atomic_ref<V, ::cuda::thread_scope_device>;

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
