// SPDX-License-Identifier: Apache-2.0
#include <gpu/executor.hpp>

#include <core/allocation.hpp>
#include <core/check.hpp>

#include <string>
#include <utility>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

scratch::~scratch() {
  if (memory_ != nullptr) {
    runtime::release(memory_, stream_);
  }
  for (void* const memory : of_graphs_) {
    runtime::release(memory, stream_);
  }
}

void* scratch::at_least(std::size_t bytes) {
  const bool capturing = bytes > 0 && runtime::is_capturing(stream_);
  if (bytes > size_) {
    core::check_allocation("queue's scratch memory", bytes);
    if (capturing) {
      throw error(errc::out_of_memory,
                  "queue: the captured call needs " + std::to_string(bytes) +
                      " bytes of scratch memory and the queue has " + std::to_string(size_) +
                      "; call reserve(), or the function once, before the capture");
    }
    if (captured_) {
      of_graphs_.push_back(std::exchange(memory_, nullptr));
      captured_ = false;
    } else if (memory_ != nullptr) {
      runtime::release(std::exchange(memory_, nullptr), stream_);
    }
    size_ = 0;
    memory_ = runtime::allocate(exchange_bytes_ + bytes, stream_);
    size_ = bytes;
    if (exchange_bytes_ > 0) {
      runtime::clear(memory_, exchange_bytes_, stream_);
    }
  }
  captured_ = captured_ || capturing;
  return memory_ == nullptr ? nullptr : static_cast<std::byte*>(memory_) + exchange_bytes_;
}

executor::executor(int device_, stream_handle stream_)
    : device(device_),
      properties(runtime::properties(device_)),
      stream(stream_),
      scratch(stream_, properties.runs_together),
      edited(stream_, false),
      listed(stream_, false) {}

void force_plan(executor& on, std::string_view name) {
  on.forced = core::plan_named<plan_name>(name, plan_names);
}

std::string last_plan(const executor& on) {
  if (const auto* plan = std::get_if<row_plan>(&on.last)) {
    return to_text(*plan);
  }
  const auto* plan = std::get_if<topk_plan>(&on.last);
  return plan == nullptr ? "" : to_text(*plan);
}

void executor::reserve(std::size_t bytes) {
  const runtime::current_device current(device);
  scratch.at_least(bytes);
}

void executor::check_memory(const char* function, const char* argument, const void* data) const {
  if (data != nullptr && !properties.reads_host_memory && runtime::is_host_memory(data)) {
    core::fail(errc::invalid_argument, {function, argument}, ".data", "memory of the host only",
               "memory that the device can use");
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
