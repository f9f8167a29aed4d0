// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a queue of the CPU backend owns: an arena of oneTBB threads beside what every executor
/// on host memory has.
#pragma once

#include <backends/host/executor.hpp>

#include <softfold/queue.hpp>

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <optional>

namespace softfold {
inline namespace cpu {

struct queue::state final : host::executor {
  explicit state(const queue_options& options);
  void execute(void (*work)(void* argument, int slot), void* argument) override;

  device_info info;
  std::atomic<bool> in_use = false;
  /// More threads than TBB would start by itself, or no more than the system allows.
  std::optional<tbb::global_control> parallelism_here;
  tbb::task_arena arena;
  int concurrency = 0;  ///< threads that there are for a call, 0 before the first one needs them

 private:
  void start();
};

}  // namespace cpu
}  // namespace softfold
