// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a queue of the CPU backend owns: an arena of oneTBB threads beside what every executor
/// on host memory has.
#pragma once

#include <backends/host/executor.hpp>

#include <softfold/queue.hpp>

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <optional>

namespace softfold {
inline namespace cpu {

struct queue::state final : host::executor {
  explicit state(const queue_options& options);
  void run(void (*work)(void* argument, int slot), void* argument) override;

  device_info info;
  std::optional<tbb::global_control> more_threads;  ///< than TBB would start by itself
  tbb::task_arena arena;
};

}  // namespace cpu
}  // namespace softfold
