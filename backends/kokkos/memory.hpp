// SPDX-License-Identifier: Apache-2.0
/// \file
/// Allocation and copies in the memory spaces of an execution space.
#pragma once

#include "space.hpp"

#include <core/allocation.hpp>

#include <Kokkos_Core.hpp>

#include <softfold/error.hpp>

#include <cstddef>
#include <exception>
#include <string>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

/// The host's memory that copies to and from a device fastest.
#if KOKKOS_VERSION >= 40000 && defined(KOKKOS_HAS_SHARED_HOST_PINNED_SPACE)
using host_memory = Kokkos::SharedHostPinnedSpace;
#else
using host_memory = Kokkos::HostSpace;
#endif

template <class Space>
allocation allocate_in(std::size_t bytes) {
  core::check_allocation("Kokkos", bytes);
  void* data = nullptr;
  try {
    data = Kokkos::kokkos_malloc<Space>("softfold", bytes);
  } catch (const std::exception& e) {
    throw error(errc::out_of_memory, "no memory for " + std::to_string(bytes) + " bytes in " +
                                         Space::name() + ": " + e.what());
  }
  return {data, [](void* p) { Kokkos::kokkos_free<Space>(p); }};
}

template <class Exec>
allocation allocate_for(std::size_t bytes, memory kind) {
  return kind == memory::host ? allocate_in<host_memory>(bytes)
                              : allocate_in<typename Exec::memory_space>(bytes);
}

template <class Space>
using bytes_view =
    Kokkos::View<char*, Space, Kokkos::MemoryTraits<static_cast<unsigned>(Kokkos::Unmanaged)>>;
template <class Space>
using const_bytes_view =
    Kokkos::View<const char*, Space,
                 Kokkos::MemoryTraits<static_cast<unsigned>(Kokkos::Unmanaged)>>;

/// Copies from one memory space to another in the order of an execution space's work.
template <class From, class To, class Exec>
void copy(const Exec& exec, void* to, const void* from, std::size_t bytes) {
  Kokkos::deep_copy(exec, bytes_view<To>(static_cast<char*>(to), bytes),
                    const_bytes_view<From>(static_cast<const char*>(from), bytes));
}

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
