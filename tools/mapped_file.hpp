// SPDX-License-Identifier: Apache-2.0
/// \file
/// A file's bytes in memory, read only, without reading it whole.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace softfold::tool {

class mapped_file {
 public:
  /// Maps a regular file. Throws failure for everything else.
  explicit mapped_file(const std::string& path);
  ~mapped_file();
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  /// Starts reading a range ahead of its use.
  void prefetch(std::size_t offset, std::size_t size) const noexcept;
  /// Gives the memory of the pages that lie wholly before `end` back, from `begin` on. Their
  /// content stays readable.
  void release(std::size_t begin, std::size_t end) const noexcept;

 private:
  std::string path_;
  std::string shown_path_;  // for messages
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace softfold::tool
