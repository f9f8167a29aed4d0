// SPDX-License-Identifier: Apache-2.0
/// \file
/// An output file that appears whole or not at all.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>

namespace softfold::tool {

class mapped_file;

/// Bytes go to a temporary file in the target's directory; commit() renames it. Whatever ends
/// the program before that (an exception, or a signal that install_signal_handlers() handles)
/// removes the temporary file and leaves an older target as it was.
class atomic_output {
 public:
  /// Throws failure if `path` is the input, is not a regular file, or cannot be written.
  atomic_output(const std::string& path, const mapped_file& input);
  ~atomic_output();
  atomic_output(const atomic_output&) = delete;
  atomic_output& operator=(const atomic_output&) = delete;

  /// Appends.
  void write(std::span<const std::byte> bytes);

  /// Puts all outputs in place; if one of them fails, none of them stays.
  static void commit(std::initializer_list<atomic_output*> outputs);

 private:
  void close();
  void rename();
  void discard() noexcept;

  std::string path_;       // as the user wrote it
  std::string target_;     // behind symbolic links
  std::string temporary_;  // empty when there is nothing to remove
  int file_ = -1;
  int slot_ = -1;
};

}  // namespace softfold::tool
