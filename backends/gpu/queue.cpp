// SPDX-License-Identifier: Apache-2.0
#include "queue_state.hpp"

#include <core/check.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

int checked_device(int requested) {
  if (requested < -1) {
    core::fail(errc::invalid_argument, {"queue", "options.device"}, "", std::to_string(requested),
               "-1 or more");
  }
  const int count = runtime::device_count();
  if (requested >= count) {
    core::fail(errc::invalid_argument, {"queue", "options.device"}, "", std::to_string(requested),
               "less than the number of devices " + std::to_string(count));
  }
  return requested < 0 ? runtime::device() : requested;
}

int device_of(const queue_options& options) {
  if (options.threads < 0) {
    core::fail(errc::invalid_argument, {"queue", "options.threads"}, "",
               std::to_string(options.threads), "0 or more");
  }
  return checked_device(options.device);
}

device_info info_of(const device_properties& properties) {
  device_info info;
  info.backend = backend_name;
  info.device = properties.name;
  info.isa = properties.architecture;
  info.threads = 1;
  info.l2_bytes = properties.l2_bytes;
  return info;
}

}  // namespace

scratch::~scratch() {
  if (memory_ != nullptr) {
    runtime::release(memory_, stream_);
  }
}

void* scratch::at_least(std::size_t bytes) {
  if (bytes > size_) {
    if (runtime::is_capturing(stream_)) {
      throw error(errc::out_of_memory,
                  "queue: the captured call needs " + std::to_string(bytes) +
                      " bytes of scratch memory and the queue has " + std::to_string(size_) +
                      "; call reserve(), or the function once, before the capture");
    }
    if (memory_ != nullptr) {
      runtime::release(std::exchange(memory_, nullptr), stream_);
    }
    size_ = 0;
    memory_ = runtime::allocate(bytes, stream_);
    size_ = bytes;
  }
  return memory_;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

namespace softfold {
inline namespace SOFTFOLD_BACKEND {

using namespace gpu;

queue::state::state(int device_)
    : device(device_),
      properties(runtime::properties(device_)),
      info(info_of(properties)),
      scratch(stream.get()) {}

queue::state::state(int device_, stream_handle theirs)
    : device(device_),
      properties(runtime::properties(device_)),
      info(info_of(properties)),
      stream(theirs),
      scratch(stream.get()) {}

queue::state::~state() = default;

void queue::state::check_memory(const char* function, const char* argument,
                                const void* data) const {
  if (data != nullptr && !properties.reads_host_memory && runtime::is_host_memory(data)) {
    core::fail(errc::invalid_argument, {function, argument}, ".data", "memory of the host only",
               "memory that the device can use");
  }
}

queue::queue() : queue(queue_options{}) {}
queue::queue(const queue_options& options) {
  const int device = device_of(options);
  const runtime::current_device current(device);
  state_ = std::make_unique<state>(device);
}
queue::queue(std::unique_ptr<state> made) : state_(std::move(made)) {}
queue::~queue() = default;
queue::queue(queue&& other) noexcept = default;
queue& queue::operator=(queue&& other) noexcept = default;

void queue::wait() { runtime::synchronize(state_->stream.get()); }

void queue::reserve(std::size_t bytes) {
  const runtime::current_device current(state_->device);
  state_->scratch.at_least(bytes);
}

const device_info& queue::info() const noexcept { return state_->info; }

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
