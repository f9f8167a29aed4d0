// SPDX-License-Identifier: Apache-2.0
/// \file
/// Memory that is used again for every block.
#pragma once

#include <softfold/matrix_view.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace softfold::tool {

/// Uninitialised and aligned for vector loads and stores.
class block_buffer {
 public:
  /// At least `bytes`; the content is lost when it has to grow.
  std::byte* reserve(std::size_t bytes) {
    const std::size_t count = bytes / sizeof(line) + 1;
    if (count > count_) {
      count_ = 0;
      lines_.reset();
      lines_ = std::make_unique_for_overwrite<line[]>(count);
      count_ = count;
    }
    return lines_[0].bytes;
  }

  matrix_ref matrix(dtype type, std::int64_t rows, std::int64_t cols) {
    const std::size_t count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
    return {reserve(count * size_of(type)), type, rows, cols, cols};
  }

 private:
  struct alignas(64) line {
    std::byte bytes[64];
  };
  std::unique_ptr<line[]> lines_;
  std::size_t count_ = 0;
};

}  // namespace softfold::tool
