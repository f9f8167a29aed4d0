// SPDX-License-Identifier: Apache-2.0
#include "queue_state.hpp"
#include "runtime.hpp"

#include <core/check.hpp>

#include <softfold/buffer.hpp>

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace softfold {
inline namespace kokkos {
namespace {

/// Who takes a buffer's memory back: a buffer may outlive its queue, and queues differ in their
/// memory spaces.
class owners {
 public:
  static owners& all() {
    static owners* const instance = new owners;  // for buffers that live to the very end
    return *instance;
  }
  void add(const kokkos_backend::allocation& memory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    release_[memory.data] = memory.release;
  }
  void release(void* data) {
    void (*function)(void*) = nullptr;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = release_.find(data);
      if (found == release_.end()) {
        return;
      }
      function = found->second;
      release_.erase(found);
    }
    if (runtime::running()) {  // a device's memory went with its runtime
      function(data);
    }
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, void (*)(void*)> release_;
};

}  // namespace

buffer::buffer(queue& q, std::size_t bytes, memory kind) : size_(bytes), kind_(kind) {
  const auto allocated = q.self().space->allocate(std::max<std::size_t>(bytes, 1), kind);
  owners::all().add(allocated);
  data_ = allocated.data;
}

buffer::~buffer() {
  if (data_ != nullptr) {
    owners::all().release(data_);
  }
}

void buffer::upload(queue& q, const void* from, std::size_t bytes, std::size_t offset) {
  core::check_buffer_copy("upload", from, bytes, offset, size_);
  if (bytes > 0) {
    q.self().space->upload(static_cast<std::byte*>(data_) + offset, from, bytes);
  }
}

void buffer::download(queue& q, void* to, std::size_t bytes, std::size_t offset) const {
  core::check_buffer_copy("download", to, bytes, offset, size_);
  if (bytes > 0) {
    q.self().space->download(to, static_cast<const std::byte*>(data_) + offset, bytes);
  }
}

}  // namespace kokkos
}  // namespace softfold
