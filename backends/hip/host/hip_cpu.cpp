// SPDX-License-Identifier: Apache-2.0
/// \file
/// Grids on HIP-CPU's streams. To HIP-CPU a block is one thread: its own lanes share the places of
/// their exchanges across wavefronts, and it starts a lane that has returned anew while others are
/// still at a barrier.
#include "launch_grid.hpp"

#include <hip/hip_runtime.h>

#include <tuple>
#include <utility>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace simt {

void enqueue(stream_handle stream, std::int64_t blocks, int threads, std::size_t shared,
             std::function<void()> body) {
  ::hip::detail::launch(
      dim3(static_cast<std::uint32_t>(blocks)), dim3(1), 0, reinterpret_cast<hipStream_t>(stream),
      [=, body = std::move(body)]() noexcept {
        run_block(::blockIdx.x, blocks, threads, shared, body);
      },
      std::tuple<>());
}

}  // namespace simt
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
