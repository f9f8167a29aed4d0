// SPDX-License-Identifier: Apache-2.0
/// \file
/// A runtime whose device is the processor: every call is complete when it returns.
#include "launch_grid.hpp"

#include <gpu/runtime.hpp>

#include <cstdlib>
#include <cstring>

#include <tbb/parallel_for.h>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace runtime {

int device() { return 0; }
int device_count() { return 1; }

device_properties properties(int /*device*/) {
  return {.name = "processor",
          .architecture = "host wavefronts of " + std::to_string(simt::width),
          .lanes = simt::width,
          .multiprocessors = 4,
          .cluster_blocks = 0,
          .shared_bytes = simt::shared_bytes,
          .l2_bytes = 0,
          .cache_bytes = std::size_t{256} << 10,  // so that tests have more than one batch
          .reads_host_memory = true};
}

stream_handle create_stream() { return nullptr; }
void destroy_stream(stream_handle /*stream*/) noexcept {}
void synchronize(stream_handle /*stream*/) {}
bool is_capturing(stream_handle /*stream*/) { return false; }

void* allocate(std::size_t bytes, bool /*host*/) {
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (memory == nullptr) {
    throw error(errc::out_of_memory, "aligned_alloc: " + std::to_string(bytes) + " bytes");
  }
  return memory;
}
void release(void* memory, bool /*host*/) noexcept { std::free(memory); }
void* allocate(std::size_t bytes, stream_handle /*stream*/) { return allocate(bytes, false); }
void release(void* memory, stream_handle /*stream*/) noexcept { release(memory, false); }

void clear(void* memory, std::size_t bytes, stream_handle /*stream*/) {
  std::memset(memory, 0, bytes);
}
void copy(void* to, const void* from, std::size_t bytes, stream_handle /*stream*/) {
  std::memcpy(to, from, bytes);
}
bool is_host_memory(const void* /*pointer*/) { return false; }

current_device::current_device(int device) : before_(device), device_(device) {}
current_device::~current_device() = default;

}  // namespace runtime

namespace simt {

void enqueue(stream_handle /*stream*/, std::int64_t blocks, int threads, std::size_t shared,
             std::function<void()> body) {
  tbb::parallel_for(std::int64_t{0}, blocks,
                    [&](std::int64_t block) { run_block(block, blocks, threads, shared, body); });
}

}  // namespace simt
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
