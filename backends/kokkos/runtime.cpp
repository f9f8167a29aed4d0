// SPDX-License-Identifier: Apache-2.0
#include <Kokkos_Core.hpp>

// After Kokkos, which the namespace kokkos must not hide from itself.
#include "runtime.hpp"

#include <softfold/error.hpp>

#include <cstdlib>
#include <mutex>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace runtime {
namespace {

bool has_ended() {
#if KOKKOS_VERSION >= 30700
  return Kokkos::is_finalized();
#else
  return false;  // these versions start again
#endif
}

void end() {
  if (Kokkos::is_initialized()) {
    Kokkos::finalize();
  }
}

}  // namespace

void start() {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (Kokkos::is_initialized()) {
    return;
  }
  if (has_ended()) {
    throw error(errc::backend_failure, "queue: Kokkos was finalized before");
  }
  Kokkos::initialize();
  // Not with the last queue: Kokkos starts once in a process. Objects with static storage that were
  // complete only after this call go before; a queue that was given to another outlives Kokkos.
  std::atexit(end);
}

bool running() { return Kokkos::is_initialized(); }

}  // namespace runtime
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
