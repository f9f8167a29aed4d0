// SPDX-License-Identifier: Apache-2.0
/// \file
/// Arrays in an executor's scratch memory.
#pragma once

#include <gpu/executor.hpp>

#include <cstddef>
#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Hands out arrays one behind the other; their addresses are multiples of 16.
class scratch_arrays {
 public:
  /// lay(arrays) takes its arrays, always the same: first to count their bytes, then from memory.
  template <class Lay>
  static void lay_out(executor& on, const Lay& lay) {
    scratch_arrays counted(nullptr);
    lay(counted);
    scratch_arrays arrays(static_cast<std::byte*>(on.scratch.at_least(counted.bytes_)));
    lay(arrays);
  }

  /// Null for none.
  template <class T>
  T* take(std::int64_t count) {
    static_assert(alignof(T) <= alignment);
    std::byte* const array = memory_ != nullptr && count > 0 ? memory_ + bytes_ : nullptr;
    bytes_ += (static_cast<std::size_t>(count) * sizeof(T) + alignment - 1) / alignment * alignment;
    return reinterpret_cast<T*>(array);
  }

 private:
  static constexpr std::size_t alignment = 16;

  explicit scratch_arrays(std::byte* memory) : memory_(memory) {}

  std::byte* memory_;
  std::size_t bytes_ = 0;
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
