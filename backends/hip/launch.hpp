// SPDX-License-Identifier: Apache-2.0
/// \file
/// Starts of kernels by HIP; see gpu/contract.hpp.
#pragma once

#ifdef SOFTFOLD_HIP_ON_HOST
#include "host/launch_grid.hpp"
#else
#include "launch_grid.hpp"
#endif

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class... Parameters>
void launch_grid(stream_handle stream, void (*kernel)(Parameters...), std::int64_t blocks,
                 int threads, std::type_identity_t<Parameters>... arguments) {
  launch_shared(stream, kernel, blocks, threads, 0, arguments...);
}

template <class... Parameters>
void launch_next(stream_handle stream, void (*kernel)(Parameters...), std::int64_t blocks,
                 int threads, std::size_t shared_bytes,
                 std::type_identity_t<Parameters>... arguments) {
  launch_shared(stream, kernel, blocks, threads, shared_bytes, arguments...);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
