// SPDX-License-Identifier: Apache-2.0
/// \file
/// An output file that appears whole or not at all.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace softfold::tool {

/// Where a result goes, and how.
struct output_target {
  std::string path;
  bool sync = true;  ///< wait until it is on the disk, so that it survives a power failure
};

/// Bytes go to a temporary file in the target's directory; commit() renames it. Whatever ends
/// the program before that (an exception, or a signal that install_signal_handlers() handles)
/// removes the temporary file and leaves an older target as it was.
class atomic_output {
 public:
  /// To be made after all inputs are open. Throws failure if the path is one of them or is another
  /// output's, is not a regular file, cannot be written, or if its file system has less than
  /// `bytes` free.
  atomic_output(const output_target& target, std::uint64_t bytes);
  ~atomic_output();
  atomic_output(const atomic_output&) = delete;
  atomic_output& operator=(const atomic_output&) = delete;

  /// Appends.
  void write(std::span<const std::byte> bytes);

  /// Puts all outputs in place; if one of them fails, all are as they were.
  static void commit(std::initializer_list<atomic_output*> outputs);

 private:
  void find_target();
  void find_directory();
  void check_space(std::uint64_t bytes) const;
  void open_temporary();
  void finish();
  void put_in_place(bool keep_old);
  void take_back() noexcept;
  void remove_temporary() noexcept;
  void sync_directory() const;

  std::string path_;       // as the user wrote it
  std::string target_;     // behind symbolic links
  std::string directory_;  // of the target
  dev_t device_ = 0;       // the directory's
  ino_t inode_ = 0;        // the directory's
  std::string temporary_;  // empty when there is nothing to remove
  bool sync_;
  bool replaces_ = false;  // whether there is an older target
  mode_t mode_ = 0;        // what the target gets
  int file_ = -1;
  int slot_ = -1;
};

}  // namespace softfold::tool
