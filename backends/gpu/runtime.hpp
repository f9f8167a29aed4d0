// SPDX-License-Identifier: Apache-2.0
/// \file
/// What backends/gpu needs of a runtime; each backend has its own runtime.cpp, and in handles.hpp
/// the type of its streams.
#pragma once

#include "handles.hpp"

#include <softfold/config.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// What a device can do.
struct device_properties {
  std::string name;
  std::string architecture;  ///< "sm_90", "gfx90a"
  int lanes = 32;            ///< of a warp or wavefront
  int multiprocessors = 0;
  int cluster_blocks = 0;        ///< most blocks of a cluster; 0: none
  bool runs_together = false;    ///< see device_limits
  bool copies_in_bulk = false;   ///< see device_limits
  std::size_t shared_bytes = 0;  ///< of shared memory, at most, that a block can have
  std::size_t l2_bytes = 0;
  std::size_t cache_bytes = 0;     ///< see device_limits
  int bytes_a_clock = 0;           ///< see device_limits
  bool reads_host_memory = false;  ///< kernels can follow any pointer of the host
};

/// All throw error(backend_failure), or out_of_memory, with the runtime's own text. Work on a
/// device is done with it as the thread's current one: see current_device.
namespace runtime {

/// The thread's current device.
int device();
int device_count();
device_properties properties(int device);

stream_handle create_stream();
void destroy_stream(stream_handle stream) noexcept;
/// Returns when the stream's work is complete.
void synchronize(stream_handle stream);
bool is_capturing(stream_handle stream);

/// Device memory in the stream's order.
void* allocate(std::size_t bytes, stream_handle stream);
void release(void* memory, stream_handle stream) noexcept;
/// Memory at once, for a buffer; `host`: page-locked memory of the host.
void* allocate(std::size_t bytes, bool host);
void release(void* memory, bool host) noexcept;

/// Sets bytes to 0, in the stream's order.
void clear(void* memory, std::size_t bytes, stream_handle stream);

/// Between any two of the host and the device, in the stream's order.
void copy(void* to, const void* from, std::size_t bytes, stream_handle stream);

/// Whether the pointer is memory that only the host can follow.
bool is_host_memory(const void* pointer);

/// Makes a device current for a scope.
class current_device {
 public:
  explicit current_device(int device);
  ~current_device();
  current_device(const current_device&) = delete;
  current_device& operator=(const current_device&) = delete;

 private:
  int before_;
  int device_;
};

}  // namespace runtime
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
