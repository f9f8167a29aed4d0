// SPDX-License-Identifier: Apache-2.0
// What the tests of GPU backends need of the CUDA runtime itself.
#pragma once

#include <softfold/cuda.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>

namespace softfold::test::api {

using error = cudaError_t;
using stream = cudaStream_t;
using graph = cudaGraph_t;
using replay = cudaGraphExec_t;

inline constexpr error success = cudaSuccess;
inline const char* error_text(error code) { return cudaGetErrorString(code); }

inline error create_stream(stream* s) {
  return cudaStreamCreateWithFlags(s, cudaStreamNonBlocking);
}
inline error begin_capture(stream s) {
  return cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
}
inline error end_capture(stream s, graph* g) { return cudaStreamEndCapture(s, g); }
inline error instantiate(replay* r, graph g) { return cudaGraphInstantiate(r, g, 0); }
inline error launch(replay r, stream s) { return cudaGraphLaunch(r, s); }
inline error destroy(stream s) { return cudaStreamDestroy(s); }
inline error destroy(graph g) { return cudaGraphDestroy(g); }
inline error destroy(replay r) { return cudaGraphExecDestroy(r); }

inline error fill(void* to, int byte, std::size_t bytes) { return cudaMemset(to, byte, bytes); }
inline error synchronize_device() { return cudaDeviceSynchronize(); }
inline error reads_host_memory(int* value) {
  return cudaDeviceGetAttribute(value, cudaDevAttrPageableMemoryAccess, 0);
}

}  // namespace softfold::test::api
