// SPDX-License-Identifier: Apache-2.0
/// \file
/// The CUDA runtime's errors as the library's.
#pragma once

#include <softfold/error.hpp>

#include <cuda_runtime_api.h>

#include <string>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Whether nothing more can be done on the device by this process.
inline bool is_fatal(cudaError_t code) {
  switch (code) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
      return true;
    default:
      return false;
  }
}

inline void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) {
    return;
  }
  static_cast<void>(cudaGetLastError());  // reported here, not again by somebody else's check
  const std::string text =
      std::string(what) + ": " + cudaGetErrorString(code) + " (" + cudaGetErrorName(code) + ")";
  if (code == cudaErrorMemoryAllocation) {
    throw error(errc::out_of_memory, text);
  }
  throw error(
      errc::backend_failure,
      is_fatal(code) ? text + "; the device cannot be used by this process any more" : text);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
