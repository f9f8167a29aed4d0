// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the cuda contenders and the clock share.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <stdexcept>
#include <string>

namespace softfold::bench {

inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
  }
}

/// The stream on which everything is timed.
[[nodiscard]] cudaStream_t device_stream();

[[nodiscard]] int multiprocessors();

/// Reads `bytes` bytes, up to the last whole 16, and does nothing else.
void launch_read(const void* from, std::size_t bytes, cudaStream_t stream);

}  // namespace softfold::bench
