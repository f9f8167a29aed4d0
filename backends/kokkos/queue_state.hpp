// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a queue of the Kokkos backend owns: an execution space instance.
#pragma once

#include "runtime.hpp"
#include "space.hpp"

#include <softfold/queue.hpp>

#include <atomic>
#include <memory>

namespace softfold {
inline namespace kokkos {

struct queue::state {
  explicit state(std::unique_ptr<kokkos_backend::space> where)
      : space(std::move(where)), info(space->info()) {}
  /// Kokkos stops a program whose execution space instances outlive it, as in an object with static
  /// storage that was given a queue late: such a one is left as it is.
  ~state() {
    if (!runtime::running()) {
      static_cast<void>(space.release());
    }
  }
  state(const state&) = delete;
  state& operator=(const state&) = delete;

  std::unique_ptr<kokkos_backend::space> space;
  device_info info;
  std::atomic<bool> in_use = false;
};

}  // namespace kokkos
}  // namespace softfold
