// SPDX-License-Identifier: Apache-2.0
#include "standard_output.hpp"

#include "failure.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace softfold::tool {
namespace {

[[noreturn]] void fail() { throw system_failure("standard output", "cannot write"); }

}  // namespace

void open_missing_streams() noexcept {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) {
      // The lowest number that is free is this one.
      [[maybe_unused]] const int opened = open("/", O_RDONLY | O_DIRECTORY);
    }
  }
}

void print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      fail();
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void close_standard_output() {
  if (close(STDOUT_FILENO) != 0 && errno != EINTR) {
    fail();
  }
}

}  // namespace softfold::tool
