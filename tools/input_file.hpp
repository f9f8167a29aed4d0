// SPDX-License-Identifier: Apache-2.0
/// \file
/// Files that are read.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace softfold::tool {

/// A regular file that is open for reading until the end of the scope.
class input_file {
 public:
  /// Throws failure for everything that is not a regular file; does not wait for a pipe's writer.
  explicit input_file(const std::string& path);
  ~input_file() {
    if (number_ >= 0) {
      close(number_);
    }
  }
  input_file(input_file&& other) noexcept
      : number_(std::exchange(other.number_, -1)), status_(other.status_) {}
  input_file& operator=(input_file&&) = delete;

  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] const struct stat& status() const noexcept { return status_; }

 private:
  int number_;
  struct stat status_ = {};
};

/// The path by which the file that `status` describes was opened as an input_file at any time, so
/// also of one that is closed by now, whatever its name there; null if it was not.
[[nodiscard]] const std::string* input_that_is(const struct stat& status);

}  // namespace softfold::tool
