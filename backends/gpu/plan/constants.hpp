// SPDX-License-Identifier: Apache-2.0
/// \file
/// From a plan's numbers to compile-time constants.
#pragma once

#include <gpu/plan/plan.hpp>

#include <bit>
#include <cstdint>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// A plan's lanes as a power of 2.
inline int row_shift(const row_plan& plan) {
  return std::countr_zero(static_cast<unsigned>(plan.lanes));
}

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Calls body with the compile-time number of vectors.
template <class Body>
void with_vectors(int vectors, Body&& body) {
  switch (vectors) {
    case 1:
      return body(std::integral_constant<int, 1>());
    case 2:
      return body(std::integral_constant<int, 2>());
    case 4:
      return body(std::integral_constant<int, 4>());
    case 5:
      return body(std::integral_constant<int, 5>());
    case 6:
      return body(std::integral_constant<int, 6>());
    case 7:
      return body(std::integral_constant<int, 7>());
    default:
      return body(std::integral_constant<int, 8>());
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
