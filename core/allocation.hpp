// SPDX-License-Identifier: Apache-2.0
/// \file
/// The step before every allocation of a size that a caller chose.
#pragma once

#include <softfold/error.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

namespace softfold::core {

[[noreturn]] inline void fail_allocation(const std::string& what, std::size_t bytes) {
  throw error(errc::out_of_memory, what + ": no memory for " + std::to_string(bytes) + " bytes");
}

/// Refuses what no object can have. Allocators that round a size up may otherwise wrap to a small
/// one: libstdc++'s aligned operator new does.
inline void check_allocation(const char* what, std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(PTRDIFF_MAX)) {
    fail_allocation(what, bytes);
  }
}

inline constexpr std::align_val_t cache_line{64};

/// Memory of the host that begins a cache line.
inline std::byte* allocate_lines(const char* what, std::size_t bytes) {
  check_allocation(what, bytes);
  void* const data = ::operator new(bytes, cache_line, std::nothrow);
  if (data == nullptr) {
    fail_allocation(what, bytes);
  }
  return static_cast<std::byte*>(data);
}

inline void release_lines(void* data) noexcept { ::operator delete(data, cache_line); }

}  // namespace softfold::core
