// SPDX-License-Identifier: Apache-2.0
/// \file
/// What must happen when a signal ends the process: unfinished outputs are removed.
#pragma once

#include <csignal>

namespace softfold::tool {

/// Removes the registered files on every signal that would end the process and can be caught, then
/// dies of the signal as usual. On SIGBUS (the mapped input shrank, or its disk failed) it also
/// reports that and exits with code 2. SIGXFSZ is ignored, the write fails instead. Signals that
/// the process was started to ignore stay ignored.
void install_signal_handlers();

/// Registers a file for removal; returns its slot, -1 if there is none left. `path` is copied.
[[nodiscard]] int remove_on_signal(const char* path);
void forget_slot(int slot) noexcept;

/// While one exists, a signal that ends the process waits: files may be made and renamed here
/// without one being left behind or half of them being in place. Not nested; one thread only.
class uninterrupted {
 public:
  uninterrupted();
  ~uninterrupted();
  uninterrupted(const uninterrupted&) = delete;
  uninterrupted& operator=(const uninterrupted&) = delete;

 private:
  sigset_t before_;
};

/// Names the file that SIGBUS reports. `path` must outlive the mapping; null for none.
void set_mapped_path(const char* path) noexcept;

}  // namespace softfold::tool
