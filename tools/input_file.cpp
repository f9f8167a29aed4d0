// SPDX-License-Identifier: Apache-2.0
#include "input_file.hpp"

#include "failure.hpp"

#include <fcntl.h>

#include <algorithm>
#include <vector>

namespace softfold::tool {
namespace {

struct known_input {
  dev_t device;
  ino_t inode;
  std::string path;
};

/// Every file that was opened: what an output may not be.
std::vector<known_input>& known_inputs() {
  static std::vector<known_input> all;
  return all;
}

}  // namespace

// O_NONBLOCK: opening a pipe must not wait for a writer, it is refused below.
input_file::input_file(const std::string& path)
    : number_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (number_ < 0) {
    throw system_failure(path, "cannot open");
  }
  const bool known = fstat(number_, &status_) == 0;
  if (known && S_ISREG(status_.st_mode)) {
    known_inputs().push_back({status_.st_dev, status_.st_ino, path});
    return;
  }
  const failure error = !known                     ? system_failure(path, "cannot open")
                        : S_ISDIR(status_.st_mode) ? failure(path, "is a directory")
                                                   : failure(path, "is not a regular file");
  close(number_);
  throw error;
}

const std::string* input_that_is(const struct stat& status) {
  const auto found =
      std::find_if(known_inputs().begin(), known_inputs().end(), [&](const known_input& input) {
        return input.device == status.st_dev && input.inode == status.st_ino;
      });
  return found == known_inputs().end() ? nullptr : &found->path;
}

}  // namespace softfold::tool
