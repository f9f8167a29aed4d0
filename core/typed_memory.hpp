// SPDX-License-Identifier: Apache-2.0
/// \file
/// Elements of memory whose type is a value, one at a time. For what is seldom: a kernel's own
/// elements have a type.
#pragma once

#include <softfold/config.hpp>
#include <softfold/dtype.hpp>

#include <cstdint>

namespace softfold::core {

/// Element i of a real type.
template <class A>
SOFTFOLD_HD inline A real_at(const void* from, dtype type, std::int64_t i) {
  switch (type) {
    case dtype::f32:
      return static_cast<A>(static_cast<const float*>(from)[i]);
    case dtype::f64:
      return static_cast<A>(static_cast<const double*>(from)[i]);
    case dtype::f16:
      return static_cast<A>(static_cast<float>(static_cast<const half*>(from)[i]));
    case dtype::bf16:
      return static_cast<A>(static_cast<float>(static_cast<const bfloat16*>(from)[i]));
    case dtype::i32:
    case dtype::i64:
    case dtype::u8:
      break;  // no real type
  }
  return A{0};
}

/// Element i of a real type becomes the value, rounded by way of f32 where it is shorter.
template <class A>
SOFTFOLD_HD inline void write_real(void* to, dtype type, std::int64_t i, A value) {
  switch (type) {
    case dtype::f32:
      static_cast<float*>(to)[i] = static_cast<float>(value);
      return;
    case dtype::f64:
      static_cast<double*>(to)[i] = static_cast<double>(value);
      return;
    case dtype::f16:
      static_cast<half*>(to)[i] = half(static_cast<float>(value));
      return;
    case dtype::bf16:
      static_cast<bfloat16*>(to)[i] = bfloat16(static_cast<float>(value));
      return;
    case dtype::i32:
    case dtype::i64:
    case dtype::u8:
      return;  // no real type
  }
}

/// Element i of i32 or i64.
SOFTFOLD_HD inline std::int64_t integer_at(const void* from, dtype type, std::int64_t i) {
  return type == dtype::i64 ? static_cast<const std::int64_t*>(from)[i]
                            : std::int64_t{static_cast<const std::int32_t*>(from)[i]};
}
SOFTFOLD_HD inline void write_integer(void* to, dtype type, std::int64_t i, std::int64_t value) {
  if (type == dtype::i64) {
    static_cast<std::int64_t*>(to)[i] = value;
  } else {
    static_cast<std::int32_t*>(to)[i] = static_cast<std::int32_t>(value);
  }
}

}  // namespace softfold::core
