// SPDX-License-Identifier: Apache-2.0
#include "input_file.hpp"

#include "failure.hpp"

#include <fcntl.h>

namespace softfold::tool {

// O_NONBLOCK: opening a pipe must not wait for a writer, it is refused below.
input_file::input_file(const std::string& path)
    : number_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (number_ < 0) {
    throw system_failure(path, "cannot open");
  }
  const bool known = fstat(number_, &status_) == 0;
  if (known && S_ISREG(status_.st_mode)) {
    return;
  }
  const failure error = !known                     ? system_failure(path, "cannot open")
                        : S_ISDIR(status_.st_mode) ? failure(path, "is a directory")
                                                   : failure(path, "is not a regular file");
  close(number_);
  throw error;
}

}  // namespace softfold::tool
