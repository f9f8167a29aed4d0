// SPDX-License-Identifier: Apache-2.0
#include <core/check.hpp>

#include <softfold/buffer.hpp>

#include <cstring>
#include <new>

namespace softfold {
inline namespace cpu {
namespace {

constexpr std::align_val_t line{64};

}  // namespace

buffer::buffer(queue& /*q*/, std::size_t bytes, memory kind) : size_(bytes), kind_(kind) {
  data_ = ::operator new(bytes, line, std::nothrow);
  if (data_ == nullptr) {
    throw error(errc::out_of_memory, "buffer: no memory for " + std::to_string(bytes) + " bytes");
  }
}

buffer::~buffer() { ::operator delete(data_, line); }

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
