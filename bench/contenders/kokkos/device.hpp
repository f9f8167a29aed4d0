// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the contenders and the clock on a device share.
#pragma once

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>

namespace softfold::bench {

using device_exec = Kokkos::DefaultExecutionSpace;
using device_memory = device_exec::memory_space;
using device_bytes = Kokkos::View<char*, device_memory,
                                  Kokkos::MemoryTraits<static_cast<unsigned>(Kokkos::Unmanaged)>>;
using host_bytes = Kokkos::View<char*, Kokkos::HostSpace,
                                Kokkos::MemoryTraits<static_cast<unsigned>(Kokkos::Unmanaged)>>;

/// As much as a thread loads at once.
struct alignas(16) line {
  std::uint32_t words[4];
};

/// body(i) for the lines of so many bytes, on the default instance, where queues are, too.
template <class Body>
void for_each_line(std::size_t bytes, const Body& body) {
  using policy = Kokkos::RangePolicy<device_exec, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for("softfold_bench",
                       policy(device_exec(), 0, static_cast<std::int64_t>(bytes / sizeof(line))),
                       body);
}

}  // namespace softfold::bench
