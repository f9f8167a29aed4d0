// SPDX-License-Identifier: Apache-2.0
#include "atomic_output.hpp"

#include "cleanup.hpp"
#include "failure.hpp"
#include "input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <random>
#include <vector>

namespace softfold::tool {
namespace {

// Short, so that it fits wherever the target's own name fits.
std::string temporary_name() {
  std::random_device random;
  char name[32];
  std::snprintf(name, sizeof name, ".softfold-%08x%08x.tmp", static_cast<unsigned>(random()),
                static_cast<unsigned>(random()));
  return name;
}

mode_t mode_of_new_files() {
  const mode_t mask = umask(0);  // there is no other way to read it
  umask(mask);
  return 0666 & ~mask;
}

// Both names keep a file, so that a failure later can be undone.
bool exchange_names(const std::string& a, const std::string& b) {
  return renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

bool written_through(int file) {
  int result = 0;
  do {
    result = fsync(file);
  } while (result != 0 && errno == EINTR);
  return result == 0 || errno == EINVAL;  // EINVAL: the file system has no fsync
}

std::vector<const atomic_output*>& open_outputs() {
  static std::vector<const atomic_output*> all;
  return all;
}

}  // namespace

atomic_output::atomic_output(const output_target& target, std::uint64_t bytes)
    : path_(target.path), target_(target.path), sync_(target.sync) {
  find_target();
  find_directory();
  check_space(bytes);
  open_outputs().reserve(open_outputs().size() + 1);  // nothing fails once there is a file
  open_temporary();
  open_outputs().push_back(this);
}

void atomic_output::find_target() {
  struct stat status = {};
  replaces_ = stat(path_.c_str(), &status) == 0;
  if (!replaces_ && errno != ENOENT) {
    throw system_failure(path_, "cannot write");
  }
  if (!replaces_) {
    if (lstat(path_.c_str(), &status) == 0) {
      throw failure(path_, "cannot write: is a symbolic link to nothing");
    }
    mode_ = mode_of_new_files();
  } else {
    if (const std::string* const input = input_that_is(status)) {
      throw failure(path_, "output is the same file as the input " + *input);
    }
    if (S_ISDIR(status.st_mode)) {
      throw failure(path_, "cannot write: is a directory");
    }
    if (!S_ISREG(status.st_mode)) {
      throw failure(path_, "cannot write: is not a regular file");
    }
    if (access(path_.c_str(), W_OK) != 0) {
      throw system_failure(path_, "cannot write");
    }
    mode_ = status.st_mode & 0777;
    std::error_code error;
    target_ = std::filesystem::canonical(path_, error).string();
    if (error) {
      throw failure(path_, "cannot write: " + error.message());
    }
  }
}

/// Two outputs in one place would replace each other. The same name in the same directory is one
/// place; another hard link is another, as each link is replaced alone.
void atomic_output::find_directory() {
  const std::filesystem::path parts(target_);
  if (parts.filename().empty()) {
    throw failure(path_, "cannot write: no file name");
  }
  directory_ = parts.has_parent_path() ? parts.parent_path().string() : ".";
  struct stat status = {};
  if (stat(directory_.c_str(), &status) != 0) {
    throw system_failure(path_, "cannot write");
  }
  device_ = status.st_dev;
  inode_ = status.st_ino;
  for (const atomic_output* const other : open_outputs()) {
    if (other->device_ == device_ && other->inode_ == inode_ &&
        std::filesystem::path(other->target_).filename() == parts.filename()) {
      throw failure(path_, "output is the same file as the output " + other->path_);
    }
  }
}

void atomic_output::check_space(std::uint64_t bytes) const {
  struct statvfs status = {};
  if (statvfs(directory_.c_str(), &status) != 0 || status.f_blocks == 0) {
    return;  // not every file system knows; the writes will tell
  }
  std::uint64_t free = 0;
  if (!__builtin_mul_overflow(std::uint64_t{status.f_bfree}, std::uint64_t{status.f_frsize},
                              &free) &&
      free < bytes) {
    throw failure(path_, "cannot write: the result has " + std::to_string(bytes) +
                             " bytes, its file system has " + std::to_string(free) + " free");
  }
}

void atomic_output::open_temporary() {
  const uninterrupted now;
  temporary_ = (std::filesystem::path(target_).replace_filename(temporary_name())).string();
  slot_ = remove_on_signal(temporary_.c_str());
  if (slot_ < 0) {
    throw failure(path_, "cannot write: the path is too long");
  }
  // For nobody else's eyes before it is in place: the older target may be as private.
  file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file_ < 0) {
    const failure error = system_failure(path_, "cannot write");
    forget_slot(slot_);
    throw error;
  }
}

atomic_output::~atomic_output() {
  std::erase(open_outputs(), this);
  if (file_ >= 0) {
    close(file_);
  }
  remove_temporary();
}

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
    output->finish();
  }
  {
    const uninterrupted now;
    auto placed = outputs.begin();
    try {
      for (; placed != outputs.end(); ++placed) {
        (*placed)->put_in_place(outputs.size() > 1);
      }
    } catch (...) {
      for (auto output = outputs.begin(); output != placed; ++output) {
        (*output)->take_back();
      }
      throw;
    }
    for (atomic_output* output : outputs) {
      output->remove_temporary();  // the older target, if there was one
    }
  }
  const std::string* synced = nullptr;
  for (const atomic_output* output : outputs) {
    if (synced == nullptr || *synced != output->directory_) {
      output->sync_directory();
      synced = &output->directory_;
    }
  }
}

/// All bytes are in the file, and some file systems report a full disk only when it is closed.
void atomic_output::finish() {
  // A file system may have no permissions to set.
  const bool has_mode = fchmod(file_, mode_) == 0 || errno == EPERM;
  if (!has_mode || (sync_ && !written_through(file_))) {
    throw system_failure(path_, "cannot write");
  }
  const int result = close(file_);
  file_ = -1;
  if (result != 0 && errno != EINTR) {
    throw system_failure(path_, "cannot write");
  }
}

void atomic_output::put_in_place(bool keep_old) {
  if (keep_old && replaces_) {
    if (exchange_names(temporary_, target_)) {
      return;
    }
    // EINVAL: the file system cannot do it. ENOENT: the older target has gone.
    if (errno != EINVAL && errno != ENOSYS && errno != ENOENT) {
      throw system_failure(path_, "cannot write");
    }
  }
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    throw system_failure(path_, "cannot write");
  }
  temporary_.clear();
  forget_slot(slot_);
}

void atomic_output::take_back() noexcept {
  if (temporary_.empty()) {
    unlink(target_.c_str());
  } else {
    exchange_names(temporary_, target_);
  }
}

void atomic_output::remove_temporary() noexcept {
  if (!temporary_.empty() && (unlink(temporary_.c_str()) == 0 || errno == ENOENT)) {
    temporary_.clear();
    forget_slot(slot_);
  }
}

void atomic_output::sync_directory() const {
  if (!sync_) {
    return;
  }
  const int directory = open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0 && errno == EACCES) {
    return;  // one that may be written but not read cannot be opened for this
  }
  const bool synced = directory >= 0 && written_through(directory);
  const failure error = system_failure(path_, "is written, but may not survive a power failure");
  if (directory >= 0) {
    close(directory);
  }
  if (!synced) {
    throw error;
  }
}

}  // namespace softfold::tool
