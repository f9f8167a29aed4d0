// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <softfold/config.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// A vector: 16 bytes of a row.
struct alignas(16) block16 {
  std::uint32_t words[4];
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
