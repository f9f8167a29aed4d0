// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Whether a device runs what was compiled for compute capability 9.0 and newer; see kernels.cmake.
constexpr bool runs_hopper_code(int major, int minor) {
  return 10 * major + minor >= SOFTFOLD_CUDA_HOPPER_FROM;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
