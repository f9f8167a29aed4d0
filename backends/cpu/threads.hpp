// SPDX-License-Identifier: Apache-2.0
/// \file
/// Whether the system lets this process start threads.
#pragma once

#include <softfold/config.hpp>

namespace softfold {
inline namespace cpu {

/// How many of `wanted` threads to ask oneTBB for: all, if that many could be started at once, else
/// half of those that could, since others may be near the limit too. oneTBB's workers start each
/// other, and one that cannot ends the program.
///
/// Starts and ends the threads, once in a process for each number larger than those before.
int startable_threads(int wanted);

/// To be called before this process' first work on several threads.
void threads_are_used();

/// Whether this process was forked from one that had used threads: they do not live in it, and
/// oneTBB would wait for them.
bool threads_are_gone() noexcept;

}  // namespace cpu
}  // namespace softfold
