// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a queue of the Kokkos backend owns: an execution space instance.
#pragma once

#include "space.hpp"

#include <softfold/queue.hpp>

#include <memory>

namespace softfold {
inline namespace kokkos {

struct queue::state {
  explicit state(std::unique_ptr<kokkos_backend::space> where)
      : space(std::move(where)), info(space->info()) {}

  std::unique_ptr<kokkos_backend::space> space;
  device_info info;
};

}  // namespace kokkos
}  // namespace softfold
