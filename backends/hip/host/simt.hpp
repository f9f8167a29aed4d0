// SPDX-License-Identifier: Apache-2.0
/// \file
/// Kernels on the processor, for tests of them where there is no GPU: each lane is a fiber, and the
/// lanes of a wavefront meet wherever they exchange values. A block is run by one thread.
///
/// It is stricter than a GPU: if some lanes of a wavefront reach an exchange or a barrier and
/// others go elsewhere, the program stops and says so.
#pragma once

#include <softfold/config.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

struct dimension {
  unsigned x;
};
// The running lane's.
extern constinit thread_local dimension threadIdx;
extern constinit thread_local dimension blockIdx;
extern constinit thread_local dimension blockDim;
extern constinit thread_local dimension gridDim;

namespace simt {

/// Of a block's shared memory, as on AMD GPUs.
inline constexpr std::size_t shared_bytes = 65536;

/// Lanes of a wavefront: 64, or what SOFTFOLD_HIP_HOST_LANES says, 32 or 64.
extern const int width;
/// The running one's number in its wavefront.
inline unsigned lane() { return threadIdx.x & (static_cast<unsigned>(width) - 1); }

/// Runs `body` for each lane of a block.
void run_block(std::int64_t block, std::int64_t blocks, int threads, std::size_t shared,
               const std::function<void()>& body);

/// The running block's dynamic shared memory.
unsigned char* shared_memory();
/// For a lane of a running block: copies `size` bytes, at most 16, to the lane's place and returns
/// the places of its wavefront's lanes, `place_bytes` each; all lanes call it. They stay until the
/// lane's next call.
inline constexpr int place_bytes = 16;
const std::byte* exchange(const void* value, std::size_t size);
/// Bit i is the predicate of the wavefront's lane i; all lanes call it.
std::uint64_t ballot(bool predicate);
/// All lanes of the block call it.
void synchronize_block();
/// Whether the predicate of some lane of the block is true. All call it.
bool any_of_block(bool predicate);

}  // namespace simt
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
