// SPDX-License-Identifier: Apache-2.0
/// \file
/// Starts of kernels by CUDA; see gpu/contract.hpp.
#pragma once

#include "check.hpp"
#include "compiled.hpp"

#include <gpu/runtime.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Throws if there are more blocks than a grid can have, or units that are numbered like them.
inline void check_blocks(std::int64_t blocks) {
  if (blocks > std::numeric_limits<int>::max()) {
    throw error(errc::backend_failure,
                "launch: " + std::to_string(blocks) + " blocks, more than a grid can have");
  }
}

namespace detail {

/// `attribute`: of the launch, or null.
template <class... Parameters>
cudaError_t try_launch(stream_handle stream, void (*kernel)(Parameters...), std::int64_t blocks,
                       int threads, cudaLaunchAttribute* attribute, std::size_t shared_bytes,
                       std::type_identity_t<Parameters>... arguments) {
  check_blocks(blocks);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attribute;
  config.numAttrs = attribute != nullptr ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

inline cudaLaunchAttribute runs_together() {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  return attribute;
}
inline cudaLaunchAttribute in_clusters(int blocks) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  return attribute;
}
inline cudaLaunchAttribute begins_early() {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  return attribute;
}

/// Whether the current device can begin a launch while the one before it ends, also in a graph.
inline bool overlaps_launches() {
  constexpr int graphs_overlap = 12030;  // version of the runtime
  if (CUDART_VERSION < graphs_overlap) {
    return false;
  }
  int device = 0;
  int major = 0;
  int minor = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
        "cudaDeviceGetAttribute");
  return runs_hopper_code(major, minor);
}

inline void allow_shared(const void* kernel, std::size_t shared_bytes) {
  if (shared_bytes > std::size_t{32} << 10) {  // the limit of 48 KiB counts static memory, too
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          "cudaFuncSetAttribute");
  }
}

template <class... Parameters>
void start(stream_handle stream, void (*kernel)(Parameters...), std::int64_t blocks, int threads,
           cudaLaunchAttribute* attribute, std::size_t shared_bytes,
           std::type_identity_t<Parameters>... arguments) {
  check(try_launch(stream, kernel, blocks, threads, attribute, shared_bytes, arguments...),
        "cudaLaunchKernelEx");
}

}  // namespace detail

template <class... Parameters>
void launch_grid(stream_handle stream, void (*kernel)(Parameters...), std::int64_t blocks,
                 int threads, std::type_identity_t<Parameters>... arguments) {
  detail::start(stream, kernel, blocks, threads, nullptr, 0, arguments...);
}

/// With dynamic shared memory.
template <class... Parameters>
void launch_shared(stream_handle stream, void (*kernel)(Parameters...), std::int64_t blocks,
                   int threads, std::size_t shared_bytes,
                   std::type_identity_t<Parameters>... arguments) {
  detail::allow_shared(reinterpret_cast<const void*>(kernel), shared_bytes);
  detail::start(stream, kernel, blocks, threads, nullptr, shared_bytes, arguments...);
}

/// After a launch of a kernel that calls let_next_begin, a kernel that calls
/// wait_for_launch_before: it may begin while the other ends.
template <class... Parameters>
void launch_next(stream_handle stream, void (*kernel)(Parameters...), std::int64_t blocks,
                 int threads, std::size_t shared_bytes,
                 std::type_identity_t<Parameters>... arguments) {
  detail::allow_shared(reinterpret_cast<const void*>(kernel), shared_bytes);
  cudaLaunchAttribute early = detail::begins_early();
  detail::start(stream, kernel, blocks, threads, detail::overlaps_launches() ? &early : nullptr,
                shared_bytes, arguments...);
}

/// Blocks that all run at once and may wait for each other. Returns false, and launches nothing, if
/// the device has no room for them, as where a part of it is set aside.
template <class... Parameters>
bool launch_together(stream_handle stream, void (*kernel)(Parameters...), std::int64_t blocks,
                     int threads, std::size_t shared_bytes,
                     std::type_identity_t<Parameters>... arguments) {
  detail::allow_shared(reinterpret_cast<const void*>(kernel), shared_bytes);
  cudaLaunchAttribute together = detail::runs_together();
  const cudaError_t code =
      detail::try_launch(stream, kernel, blocks, threads, &together, shared_bytes, arguments...);
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
                     int cluster, int threads, std::size_t shared_bytes,
                     std::type_identity_t<Parameters>... arguments) {
  detail::allow_shared(reinterpret_cast<const void*>(kernel), shared_bytes);
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
        "cudaFuncSetAttribute");
  cudaLaunchAttribute attribute = detail::in_clusters(cluster);
  detail::start(stream, kernel, clusters * cluster, threads, cluster > 1 ? &attribute : nullptr,
                shared_bytes, arguments...);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
