// SPDX-License-Identifier: Apache-2.0
/// \file
/// Kernel launches by CUDA. backends/hip has the same names.
#pragma once

#include "check.hpp"
#include "runtime.hpp"

#include <cstdint>
#include <limits>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace detail {

template <class... Parameters>
void launch(stream_handle stream, void (*kernel)(Parameters...), std::int64_t blocks, int threads,
            int cluster, std::size_t shared_bytes, std::type_identity_t<Parameters>... arguments) {
  if (blocks > std::numeric_limits<int>::max()) {
    throw error(errc::backend_failure,
                "launch: " + std::to_string(blocks) + " blocks, more than a grid can have");
  }
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = cluster > 1 ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), "cudaLaunchKernelEx");
}

}  // namespace detail

template <class... Parameters>
void launch(stream_handle stream, void (*kernel)(Parameters...), std::int64_t blocks, int threads,
            std::type_identity_t<Parameters>... arguments) {
  detail::launch(stream, kernel, blocks, threads, 1, 0, arguments...);
}

/// With dynamic shared memory; `most` is the largest that the kernel is ever launched with.
template <class... Parameters>
void launch_shared(stream_handle stream, void (*kernel)(Parameters...), std::int64_t blocks,
                   int threads, std::size_t shared_bytes,
                   std::type_identity_t<Parameters>... arguments) {
  if (shared_bytes > std::size_t{48} << 10) {
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          "cudaFuncSetAttribute");
  }
  detail::launch(stream, kernel, blocks, threads, 1, shared_bytes, arguments...);
}

/// `clusters` clusters of `cluster` blocks.
template <class... Parameters>
void launch_clusters(stream_handle stream, void (*kernel)(Parameters...), std::int64_t clusters,
                     int cluster, int threads, std::type_identity_t<Parameters>... arguments) {
  if (cluster > 8) {
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                               cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
          "cudaFuncSetAttribute");
  }
  detail::launch(stream, kernel, clusters * cluster, threads, cluster, 0, arguments...);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
