// SPDX-License-Identifier: Apache-2.0
/// \file
/// What must happen when a signal ends the process: unfinished outputs are removed.
#pragma once

namespace softfold::tool {

/// Removes the registered files on SIGINT, SIGTERM, SIGHUP and SIGPIPE, then dies of the signal
/// as usual. On SIGBUS (the mapped input shrank, or its disk failed) it also reports that and
/// exits with code 2. Signals that the process was started to ignore stay ignored.
void install_signal_handlers();

/// Registers a file for removal; returns its slot, -1 if there is none left. `path` is copied.
[[nodiscard]] int remove_on_signal(const char* path);
void forget_slot(int slot) noexcept;

/// Names the file that SIGBUS reports. `path` must outlive the mapping; null for none.
void set_mapped_path(const char* path) noexcept;

}  // namespace softfold::tool
