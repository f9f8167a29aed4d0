// SPDX-License-Identifier: Apache-2.0
/// \file
/// The one exception type of the library.
#pragma once

#include <softfold/config.hpp>

#include <stdexcept>
#include <string>

namespace softfold {

enum class errc {
  /// A size, pointer, stride, k, scale or overlap that the function does not accept.
  invalid_argument,
  /// An element type, or a pair of input and output types, that the function does not accept.
  unsupported_type,
  /// Scratch memory could not be had.
  out_of_memory,
  /// The backend's runtime reported a fault; what() carries its text.
  backend_failure,
  /// Bytes that are not what they are read as: foreign, truncated, altered or of a later version.
  invalid_data,
};

/// Thrown by every entry point. When it is thrown for an argument, nothing has been written
/// and nothing launched; what() names the function, the argument, its value and what was
/// expected.
class SOFTFOLD_API error : public std::runtime_error {
 public:
  error(errc code, const std::string& message) : std::runtime_error(message), code_(code) {}

  [[nodiscard]] errc code() const noexcept { return code_; }

 private:
  errc code_;
};

}  // namespace softfold
