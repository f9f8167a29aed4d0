// SPDX-License-Identifier: Apache-2.0
#include "atomic_output.hpp"

#include "cleanup.hpp"
#include "failure.hpp"
#include "mapped_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <random>

namespace softfold::tool {
namespace {

// Short, so that it fits wherever the target's own name fits.
std::string temporary_beside(const std::string& target) {
  std::random_device random;
  char name[32];
  std::snprintf(name, sizeof name, ".softfold-%08x%08x.tmp", static_cast<unsigned>(random()),
                static_cast<unsigned>(random()));
  return std::filesystem::path(target).replace_filename(name).string();
}

}  // namespace

atomic_output::atomic_output(const std::string& path, const mapped_file& input)
    : path_(path), target_(path) {
  struct stat status = {};
  const bool exists = stat(path.c_str(), &status) == 0;
  if (exists) {
    if (input.is(status)) {
      throw failure(path, "output is the same file as the input");
    }
    if (S_ISDIR(status.st_mode)) {
      throw failure(path, "cannot write: is a directory");
    }
    if (!S_ISREG(status.st_mode)) {
      throw failure(path, "cannot write: is not a regular file");
    }
    if (access(path.c_str(), W_OK) != 0) {
      throw system_failure(path, "cannot write");
    }
    std::error_code ignored;
    const std::filesystem::path real = std::filesystem::canonical(path, ignored);
    target_ = real.empty() ? path : real.string();
  }
  if (std::filesystem::path(target_).filename().empty()) {
    throw failure(path, "cannot write: no file name");
  }
  temporary_ = temporary_beside(target_);
  slot_ = remove_on_signal(temporary_.c_str());
  if (slot_ < 0) {
    throw failure(path, "cannot write: the path is too long");
  }
  file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) {
    const failure error = system_failure(path, "cannot write");
    forget_slot(slot_);
    throw error;
  }
  if (exists) {
    // A replaced file keeps its permissions; not being allowed to is no reason to fail.
    [[maybe_unused]] const int result = fchmod(file_, status.st_mode & 07777);
  }
}

atomic_output::~atomic_output() { discard(); }

void atomic_output::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    constexpr std::size_t most = std::size_t{1} << 30;  // a call writes less than 2 GiB
    const ssize_t written = ::write(file_, bytes.data(), std::min(bytes.size(), most));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      throw system_failure(path_, "cannot write");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void atomic_output::commit(std::initializer_list<atomic_output*> outputs) {
  for (atomic_output* output : outputs) {
    output->close();  // some file systems report a full disk only here
  }
  auto renamed = outputs.begin();
  try {
    for (; renamed != outputs.end(); ++renamed) {
      (*renamed)->rename();
    }
  } catch (...) {
    for (auto output = outputs.begin(); output != renamed; ++output) {
      unlink((*output)->target_.c_str());
    }
    throw;
  }
}

void atomic_output::close() {
  const int result = ::close(file_);
  file_ = -1;
  if (result != 0) {
    throw system_failure(path_, "cannot write");
  }
}

void atomic_output::rename() {
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    throw system_failure(path_, "cannot write");
  }
  temporary_.clear();
  forget_slot(slot_);
  slot_ = -1;
}

void atomic_output::discard() noexcept {
  if (file_ >= 0) {
    ::close(file_);
    file_ = -1;
  }
  if (!temporary_.empty()) {
    unlink(temporary_.c_str());
    forget_slot(slot_);
  }
}

}  // namespace softfold::tool
