// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gpu/contract.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Shared memory for a T, not initialised: a T whose members have initialisers may not be a
/// __shared__ variable.
template <class T>
struct uninitialised {
  alignas(T) unsigned char bytes[sizeof(T)];
  __device__ T& get() { return *reinterpret_cast<T*>(bytes); }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
