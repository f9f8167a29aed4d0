// SPDX-License-Identifier: Apache-2.0
/// \file
/// The HIP runtime's errors as the library's.
#pragma once

#include <softfold/error.hpp>

#ifdef SOFTFOLD_HIP_CPU
#include "host/hip_cpu.hpp"
#else
#include <hip/hip_runtime_api.h>
#endif

#include <string>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Whether nothing more can be done on the device by this process.
inline bool is_fatal(hipError_t code) {
  switch (code) {
    case hipErrorIllegalAddress:
    case hipErrorLaunchTimeOut:
    case hipErrorAssert:
    case hipErrorLaunchFailure:
    case hipErrorECCNotCorrectable:
      return true;
    default:
      return false;
  }
}

inline void check(hipError_t code, const char* what) {
  if (code == hipSuccess) {
    return;
  }
  static_cast<void>(hipGetLastError());  // reported here, not again by somebody else's check
  const std::string text =
      std::string(what) + ": " + hipGetErrorString(code) + " (" + hipGetErrorName(code) + ")";
  if (code == hipErrorOutOfMemory) {
    throw error(errc::out_of_memory, text);
  }
  throw error(
      errc::backend_failure,
      is_fatal(code) ? text + "; the device cannot be used by this process any more" : text);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
