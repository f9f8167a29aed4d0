// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a queue of the CPU backend owns: an arena of threads, the selected kernels and scratch
/// memory.
#pragma once

#include "machine.hpp"
#include "plan.hpp"

#include <softfold/queue.hpp>

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace softfold::cpu_backend {

/// Cache-line aligned memory that only grows.
class scratch {
 public:
  /// At least `bytes` bytes, contents undefined. Throws error(out_of_memory).
  std::byte* at_least(std::size_t bytes);

 private:
  struct release {
    void operator()(std::byte* p) const noexcept;
  };
  std::unique_ptr<std::byte, release> memory_;
  std::size_t size_ = 0;
};

}  // namespace softfold::cpu_backend

namespace softfold {
inline namespace cpu {

struct queue::state {
  explicit state(const queue_options& options);

  cpu_backend::machine machine;
  const cpu_backend::kernel_table& kernels;
  device_info info;
  std::optional<tbb::global_control> more_threads;  ///< than TBB would start by itself
  tbb::task_arena arena;
  cpu_backend::scratch scratch;
};

}  // namespace cpu
}  // namespace softfold
