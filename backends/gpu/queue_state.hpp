// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a queue of a GPU backend owns: a stream, or the caller's, and scratch memory in its order.
#pragma once

#include "plan.hpp"
#include "runtime.hpp"

#include <softfold/queue.hpp>

#include <cstddef>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Device memory that only grows, in a stream's order.
class scratch {
 public:
  explicit scratch(stream_handle stream) : stream_(stream) {}
  ~scratch();
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;

  /// At least `bytes` bytes, contents undefined. Throws error(out_of_memory); so it does where it
  /// would have to grow inside a graph capture.
  void* at_least(std::size_t bytes);

 private:
  stream_handle stream_;
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

/// Owns a stream that the library made; a caller's is only held.
class stream {
 public:
  stream() : handle_(runtime::create_stream()), owned_(true) {}
  explicit stream(stream_handle theirs) : handle_(theirs), owned_(false) {}
  ~stream() {
    if (owned_) {
      runtime::destroy_stream(handle_);
    }
  }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;

  [[nodiscard]] stream_handle get() const noexcept { return handle_; }

 private:
  stream_handle handle_;
  bool owned_;
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

namespace softfold {
inline namespace SOFTFOLD_BACKEND {

struct queue::state {
  explicit state(int device);
  state(int device, gpu::stream_handle theirs);
  ~state();

  int device;
  gpu::device_properties properties;
  device_info info;
  gpu::stream stream;
  gpu::scratch scratch;

  [[nodiscard]] gpu::device_limits limits() const {
    return {properties.lanes, properties.cluster_blocks, properties.multiprocessors,
            static_cast<std::int64_t>(properties.shared_bytes),
            static_cast<std::int64_t>(properties.cache_bytes)};
  }
  /// Throws error(invalid_argument) if the argument's memory is the host's and the device cannot
  /// read it.
  void check_memory(const char* function, const char* argument, const void* data) const;
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
