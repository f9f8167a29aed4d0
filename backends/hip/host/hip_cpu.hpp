// SPDX-License-Identifier: Apache-2.0
/// \file
/// HIP-CPU's runtime, completed by what runtime.cpp and check.hpp also call. Its device is the
/// processor, which follows any pointer and captures nothing. Its hipMallocAsync writes the pointer
/// after it has returned, so it is said to have none.
#pragma once

#include <hip/hip_runtime_api.h>

#define HIP_VERSION_MAJOR 5

enum hipDeviceAttribute_t {
  hipDeviceAttributeMemoryPoolsSupported,
  hipDeviceAttributePageableMemoryAccess
};
inline hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t which, int /*device*/) {
  *value = which == hipDeviceAttributePageableMemoryAccess ? 1 : 0;
  return hipSuccess;
}

enum hipStreamCaptureStatus { hipStreamCaptureStatusNone };
inline hipError_t hipStreamIsCapturing(hipStream_t, hipStreamCaptureStatus* status) {
  *status = hipStreamCaptureStatusNone;
  return hipSuccess;
}

struct hipPointerAttribute_t {};
inline hipError_t hipPointerGetAttributes(hipPointerAttribute_t*, const void*) {
  return hipSuccess;
}
