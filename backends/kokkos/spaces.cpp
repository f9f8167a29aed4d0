// SPDX-License-Identifier: Apache-2.0
/// \file
/// The execution spaces that this Kokkos has, and which kernels run on each.
#include "host_space.hpp"
#include "queue_state.hpp"
#include "team_space.hpp"

#include <core/numerics.hpp>

#include <softfold/kokkos.hpp>

#include <Kokkos_Core.hpp>
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)
#define SOFTFOLD_KOKKOS_HAS_GPU_SPACE
#include "gpu_space.hpp"
#endif

#include <cstdlib>
#include <memory>
#include <string_view>
#include <type_traits>

namespace softfold {
inline namespace kokkos {
namespace {

/// Tests run the kernels by teams on any space.
bool teams_forced() {
  const char* const forced = std::getenv("SOFTFOLD_KOKKOS_KERNELS");
  return forced != nullptr && std::string_view(forced) == "teams";
}

template <class Exec>
std::unique_ptr<kokkos_backend::space> space_of(const Exec& exec, int threads, numerics asked) {
  if constexpr (kokkos_backend::works_on_host_memory<Exec>) {
    if (!teams_forced()) {
      return std::make_unique<kokkos_backend::host_space<Exec>>(exec, threads, asked);
    }
  }
#ifdef SOFTFOLD_KOKKOS_HAS_GPU_SPACE
  if constexpr (std::is_same_v<Exec, kokkos_backend::gpu_execution_space>) {
    if (!teams_forced()) {
      return std::make_unique<kokkos_backend::gpu_space>(exec, asked);
    }
  }
#endif
  return std::make_unique<kokkos_backend::team_space<Exec>>(exec, asked);
}

}  // namespace

template <execution_space Exec>
queue make_queue(const Exec& exec, numerics asked) {
  return queue(std::make_unique<queue::state>(space_of(exec, 0, core::numerics_of(asked))));
}

#ifdef KOKKOS_ENABLE_SERIAL
template SOFTFOLD_API queue make_queue(const Kokkos::Serial&, numerics);
#endif
#ifdef KOKKOS_ENABLE_OPENMP
template SOFTFOLD_API queue make_queue(const Kokkos::OpenMP&, numerics);
#endif
#ifdef KOKKOS_ENABLE_THREADS
template SOFTFOLD_API queue make_queue(const Kokkos::Threads&, numerics);
#endif
#ifdef KOKKOS_ENABLE_HPX
template SOFTFOLD_API queue make_queue(const Kokkos::Experimental::HPX&, numerics);
#endif
#ifdef SOFTFOLD_KOKKOS_HAS_GPU_SPACE
template SOFTFOLD_API queue make_queue(const kokkos_backend::gpu_execution_space&, numerics);
#endif
#ifdef KOKKOS_ENABLE_SYCL
#if KOKKOS_VERSION >= 40500
template SOFTFOLD_API queue make_queue(const Kokkos::SYCL&, numerics);
#else
template SOFTFOLD_API queue make_queue(const Kokkos::Experimental::SYCL&, numerics);
#endif
#endif

namespace kokkos_backend {

std::unique_ptr<space> default_space(int threads, numerics asked) {
  return space_of(Kokkos::DefaultExecutionSpace(), threads, asked);
}

}  // namespace kokkos_backend
}  // namespace kokkos
}  // namespace softfold
