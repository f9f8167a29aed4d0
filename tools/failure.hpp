// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the command reports as "softfold: FILE: cause" with exit code 2.
#pragma once

#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>

namespace softfold::tool {

class failure : public std::runtime_error {
 public:
  failure(const std::string& file, const std::string& cause)
      : std::runtime_error(file + ": " + cause) {}
};

/// The failure of a system call, from errno.
inline failure system_failure(const std::string& file, const std::string& action) {
  const int code = errno;
  return {file, action + ": " + std::generic_category().message(code)};
}

}  // namespace softfold::tool
