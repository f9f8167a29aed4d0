// SPDX-License-Identifier: Apache-2.0
/// \file
/// Memory that a queue's calls can read and write, for programs that are to run on any backend.
#pragma once

#include <softfold/config.hpp>
#include <softfold/matrix_view.hpp>
#include <softfold/queue.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace softfold {

enum class memory : std::uint8_t {
  device,  ///< where calls are fast; the host reads and writes it by upload and download only
  host,    ///< the host's; copies to and from a device are fast and overlap its work
};

inline namespace SOFTFOLD_BACKEND {

/// Owns uninitialised memory, aligned to 64 bytes or more. Calls also take memory that the program
/// got elsewhere (on a GPU from the runtime's own allocator); this class is a convenience.
class SOFTFOLD_API buffer {
 public:
  buffer() = default;
  /// Throws error(out_of_memory).
  buffer(queue& q, std::size_t bytes, memory kind = memory::device);
  ~buffer();
  buffer(buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        kind_(other.kind_) {}
  buffer& operator=(buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(kind_, other.kind_);
    return *this;
  }

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// The start of the memory as a matrix without gaps between its rows.
  template <element T>
  [[nodiscard]] matrix_view<T> matrix(std::int64_t rows, std::int64_t cols) const noexcept {
    return {static_cast<T*>(data_), rows, cols};
  }

  /// Copies `bytes` from the host's memory to data() + offset, in the queue's order. `from` must
  /// stay as it is until q.wait(). Throws error(invalid_argument) if offset + bytes > size().
  void upload(queue& q, const void* from, std::size_t bytes, std::size_t offset = 0);
  /// Copies `bytes` from data() + offset to the host's memory, in the queue's order; complete
  /// after q.wait(). Throws as upload.
  void download(queue& q, void* to, std::size_t bytes, std::size_t offset = 0) const;

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
  memory kind_ = memory::device;
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
