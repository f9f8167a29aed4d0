// SPDX-License-Identifier: Apache-2.0
/// \file
/// Kernel launches by CUDA. backends/hip has the same names.
#pragma once

#include "check.hpp"

#include <gpu/runtime.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace detail {

template <class... Parameters>
cudaError_t try_launch(stream_handle stream, void (*kernel)(Parameters...), std::int64_t blocks,
                       int threads, int cluster, bool together, std::size_t shared_bytes,
                       std::type_identity_t<Parameters>... arguments) {
  if (blocks > std::numeric_limits<int>::max()) {
    throw error(errc::backend_failure,
                "launch: " + std::to_string(blocks) + " blocks, more than a grid can have");
  }
  cudaLaunchAttribute attribute{};
  if (together) {
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
  } else {
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = together || cluster > 1 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

inline void allow_shared(const void* kernel, std::size_t shared_bytes) {
  if (shared_bytes > std::size_t{32} << 10) {  // the limit of 48 KiB counts static memory, too
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          "cudaFuncSetAttribute");
  }
}

template <class... Parameters>
void launch(stream_handle stream, void (*kernel)(Parameters...), std::int64_t blocks, int threads,
            int cluster, std::size_t shared_bytes, std::type_identity_t<Parameters>... arguments) {
  check(try_launch(stream, kernel, blocks, threads, cluster, false, shared_bytes, arguments...),
        "cudaLaunchKernelEx");
}

}  // namespace detail

template <class... Parameters>
void launch(stream_handle stream, void (*kernel)(Parameters...), std::int64_t blocks, int threads,
            std::type_identity_t<Parameters>... arguments) {
  detail::launch(stream, kernel, blocks, threads, 1, 0, arguments...);
}

/// With dynamic shared memory.
template <class... Parameters>
void launch_shared(stream_handle stream, void (*kernel)(Parameters...), std::int64_t blocks,
                   int threads, std::size_t shared_bytes,
                   std::type_identity_t<Parameters>... arguments) {
  detail::allow_shared(reinterpret_cast<const void*>(kernel), shared_bytes);
  detail::launch(stream, kernel, blocks, threads, 1, shared_bytes, arguments...);
}

/// Blocks that all run at once and may wait for each other. Returns false, and launches nothing, if
/// the device has no room for them, as where a part of it is set aside.
template <class... Parameters>
bool launch_together(stream_handle stream, void (*kernel)(Parameters...), std::int64_t blocks,
                     int threads, std::size_t shared_bytes,
                     std::type_identity_t<Parameters>... arguments) {
  detail::allow_shared(reinterpret_cast<const void*>(kernel), shared_bytes);
  const cudaError_t code =
      detail::try_launch(stream, kernel, blocks, threads, 1, true, shared_bytes, arguments...);
  if (code == cudaErrorCooperativeLaunchTooLarge) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  check(code, "cudaLaunchKernelEx");
  return true;
}

/// Clusters of `cluster` blocks, also of more than the 8 that any device runs.
template <class... Parameters>
void launch_clusters(stream_handle stream, void (*kernel)(Parameters...), std::int64_t clusters,
                     int cluster, int threads, std::type_identity_t<Parameters>... arguments) {
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
        "cudaFuncSetAttribute");
  detail::launch(stream, kernel, clusters * cluster, threads, cluster, 0, arguments...);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
