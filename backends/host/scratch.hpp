// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <softfold/config.hpp>

#include <cstddef>
#include <memory>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

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

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
