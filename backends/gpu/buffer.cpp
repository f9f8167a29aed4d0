// SPDX-License-Identifier: Apache-2.0
#include <gpu/queue_state.hpp>

#include <core/allocation.hpp>
#include <core/check.hpp>

#include <softfold/buffer.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {

using namespace gpu;

buffer::buffer(queue& q, std::size_t bytes, memory kind) : size_(bytes), kind_(kind) {
  core::check_allocation("buffer", bytes);
  const runtime::current_device current(q.self().executor.device);
  if (bytes > 0) {
    data_ = runtime::allocate(bytes, kind == memory::host);
  }
}

buffer::~buffer() {
  if (data_ != nullptr) {
    runtime::release(data_, kind_ == memory::host);
  }
}

void buffer::upload(queue& q, const void* from, std::size_t bytes, std::size_t offset) {
  core::check_buffer_copy("upload", from, bytes, offset, size_);
  if (bytes > 0) {
    const runtime::current_device current(q.self().executor.device);
    runtime::copy(static_cast<std::byte*>(data_) + offset, from, bytes, q.self().stream.get());
  }
}

void buffer::download(queue& q, void* to, std::size_t bytes, std::size_t offset) const {
  core::check_buffer_copy("download", to, bytes, offset, size_);
  if (bytes > 0) {
    const runtime::current_device current(q.self().executor.device);
    runtime::copy(to, static_cast<const std::byte*>(data_) + offset, bytes, q.self().stream.get());
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
