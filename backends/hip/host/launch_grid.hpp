// SPDX-License-Identifier: Apache-2.0
/// \file
/// Kernel launches on the processor.
#pragma once

#include "simt.hpp"

#include <gpu/runtime.hpp>
#include <softfold/error.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace simt {

/// Runs a grid in the stream's order.
void enqueue(stream_handle stream, std::int64_t blocks, int threads, std::size_t shared,
             std::function<void()> body);

}  // namespace simt

/// With dynamic shared memory.
template <class... Parameters>
void launch_shared(stream_handle stream, void (*kernel)(Parameters...), std::int64_t blocks,
                   int threads, std::size_t shared_bytes,
                   std::type_identity_t<Parameters>... arguments) {
  if (shared_bytes > simt::shared_bytes) {
    throw error(errc::backend_failure, "launch: " + std::to_string(shared_bytes) +
                                           " bytes of shared memory, more than a block can have");
  }
  simt::enqueue(stream, blocks, threads, shared_bytes, [=] { kernel(arguments...); });
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
