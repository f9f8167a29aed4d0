// SPDX-License-Identifier: Apache-2.0
/// \file
/// The 16-bit types as the kernels see them: bits in memory, nothing else. The public half and
/// bfloat16 have inline conversions, which must not be compiled for a wide instruction set.
#pragma once

#include <core/always_inline.hpp>
#include <softfold/config.hpp>

#include <cstdint>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

struct f16_bits {
  std::uint16_t bits;
};
struct bf16_bits {
  std::uint16_t bits;
};

/// The type of the arithmetic on elements of type T.
template <class T>
struct arithmetic {
  using type = float;
};
template <>
struct arithmetic<double> {
  using type = double;
};
template <class T>
using arithmetic_t = typename arithmetic<T>::type;

template <class A>
inline constexpr A infinity = static_cast<A>(__builtin_inff());

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
