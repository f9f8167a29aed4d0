// SPDX-License-Identifier: Apache-2.0
/// \file
/// Kernel launches by the HIP runtime.
#pragma once

#include "check.hpp"

#include <gpu/runtime.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// With dynamic shared memory.
template <class... Parameters>
void launch_shared(stream_handle stream, void (*kernel)(Parameters...), std::int64_t blocks,
                   int threads, std::size_t shared_bytes,
                   std::type_identity_t<Parameters>... arguments) {
  // HIP counts the threads of a grid in 32 bits: at 64 bytes a thread, 256 GiB of a matrix.
  if (blocks > std::int64_t{std::numeric_limits<std::uint32_t>::max()} / threads) {
    throw error(errc::backend_failure, "launch: " + std::to_string(blocks) + " blocks of " +
                                           std::to_string(threads) +
                                           " threads, more than a grid can have");
  }
  void* pointers[] = {&arguments...};
  check(hipLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(static_cast<unsigned>(blocks)),
                        dim3(static_cast<unsigned>(threads)), pointers, shared_bytes, stream),
        "hipLaunchKernel");
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
