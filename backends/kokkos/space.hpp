// SPDX-License-Identifier: Apache-2.0
/// \file
/// An instance of some Kokkos execution space, its type erased: what a queue runs on.
#pragma once

#include <core/problem.hpp>

#include <softfold/buffer.hpp>
#include <softfold/queue.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

/// Memory of some Kokkos memory space and who takes it back.
struct allocation {
  void* data = nullptr;
  void (*release)(void*) = nullptr;
};

class space {
 public:
  space() = default;
  space(const space&) = delete;
  space& operator=(const space&) = delete;
  virtual ~space() = default;

  /// With room in the text for what every host can say: caches.
  [[nodiscard]] virtual device_info info() const = 0;
  virtual void wait() = 0;
  virtual void reserve(std::size_t bytes) = 0;

  /// Throws error(out_of_memory).
  [[nodiscard]] virtual allocation allocate(std::size_t bytes, memory kind) = 0;
  /// Copies between host memory and memory of this space, in the order of its other work.
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;

  virtual void run(const core::problem& p) = 0;

  /// See core/run.hpp.
  [[nodiscard]] virtual std::span<const char* const> plan_names() const = 0;
  virtual void force_plan(std::string_view name) = 0;
  [[nodiscard]] virtual std::string last_plan() const = 0;
};

/// The default execution space, with at most `threads` of a host's threads; 0 means all.
std::unique_ptr<space> default_space(int threads, numerics asked);

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
