// SPDX-License-Identifier: Apache-2.0
#include <core/allocation.hpp>
#include <core/check.hpp>

#include <softfold/buffer.hpp>

#include <cstring>

namespace softfold {
inline namespace cpu {

buffer::buffer(queue& /*q*/, std::size_t bytes, memory kind)
    : data_(core::allocate_lines("buffer", bytes)), size_(bytes), kind_(kind) {}

buffer::~buffer() { core::release_lines(data_); }

void buffer::upload(queue& /*q*/, const void* from, std::size_t bytes, std::size_t offset) {
  core::check_buffer_copy("upload", from, bytes, offset, size_);
  if (bytes > 0) {
    std::memcpy(static_cast<std::byte*>(data_) + offset, from, bytes);
  }
}

void buffer::download(queue& /*q*/, void* to, std::size_t bytes, std::size_t offset) const {
  core::check_buffer_copy("download", to, bytes, offset, size_);
  if (bytes > 0) {
    std::memcpy(to, static_cast<const std::byte*>(data_) + offset, bytes);
  }
}

}  // namespace cpu
}  // namespace softfold
