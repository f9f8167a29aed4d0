// SPDX-License-Identifier: Apache-2.0
/// \file
/// What plans need to know of a matrix.
#pragma once

#include <gpu/plan/plan.hpp>

#include <softfold/matrix_view.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

inline row_shape shape_of(const const_matrix_ref& x) {
  const auto size = static_cast<std::int64_t>(size_of(x.type));
  const auto rows_start_at = [&](std::int64_t bytes) {
    return reinterpret_cast<std::uintptr_t>(x.data) % static_cast<std::uintptr_t>(bytes) == 0 &&
           x.stride * size % bytes == 0;
  };
  const std::int64_t alignment = rows_start_at(32) ? 32 : rows_start_at(16) ? 16 : size;
  return {.cols = x.cols,
          .element_bytes = static_cast<int>(size),
          .alignment = static_cast<int>(alignment)};
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
