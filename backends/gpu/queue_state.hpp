// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a queue of a GPU backend owns: a stream, or the caller's, and the
/// executor on it.
#pragma once

#include <gpu/executor.hpp>

#include <softfold/queue.hpp>

#include <atomic>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

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
  explicit state(int device) : executor(device, stream.get()), info(info_of_device()) {}
  state(int device, gpu::stream_handle theirs)
      : stream(theirs), executor(device, stream.get()), info(info_of_device()) {}

  gpu::stream stream;  // before the executor, whose scratch memory is in its order
  gpu::executor executor;
  device_info info;
  std::atomic<bool> in_use = false;

 private:
  [[nodiscard]] device_info info_of_device() const;
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
