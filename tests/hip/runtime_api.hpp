// SPDX-License-Identifier: Apache-2.0
// What the tests of GPU backends need of the HIP runtime itself.
#pragma once

#include <softfold/hip.hpp>

#include <hip/hip_runtime_api.h>

#include <cstddef>

namespace softfold::test::api {

using error = hipError_t;
using stream = hipStream_t;
using graph = hipGraph_t;
using replay = hipGraphExec_t;

inline constexpr error success = hipSuccess;
inline const char* error_text(error code) { return hipGetErrorString(code); }

inline error create_stream(stream* s) { return hipStreamCreateWithFlags(s, hipStreamNonBlocking); }
inline error begin_capture(stream s) {
  return hipStreamBeginCapture(s, hipStreamCaptureModeGlobal);
}
inline error end_capture(stream s, graph* g) { return hipStreamEndCapture(s, g); }
inline error instantiate(replay* r, graph g) {
  return hipGraphInstantiate(r, g, nullptr, nullptr, 0);
}
inline error launch(replay r, stream s) { return hipGraphLaunch(r, s); }
inline error destroy(stream s) { return hipStreamDestroy(s); }
inline error destroy(graph g) { return hipGraphDestroy(g); }
inline error destroy(replay r) { return hipGraphExecDestroy(r); }

inline error fill(void* to, int byte, std::size_t bytes) { return hipMemset(to, byte, bytes); }
inline error synchronize_device() { return hipDeviceSynchronize(); }
inline error reads_host_memory(int* value) {
  return hipDeviceGetAttribute(value, hipDeviceAttributePageableMemoryAccess, 0);
}

}  // namespace softfold::test::api
