// SPDX-License-Identifier: Apache-2.0
/// \file
/// From the run-time name of a real element type to the type.
#pragma once

#include <softfold/dtype.hpp>

#include <cstdlib>
#include <type_traits>
#include <utility>

namespace softfold::core {

/// The type of the arithmetic on an element type.
template <class T>
using arithmetic_t = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Calls body with a value of the type, which is real: arguments have been checked. There is no
/// default case: a new dtype does not compile before its place here is decided.
template <class Body>
decltype(auto) with_real(dtype type, Body&& body) {
  switch (type) {
    case dtype::f32:
      return std::forward<Body>(body)(float{});
    case dtype::f64:
      return std::forward<Body>(body)(double{});
    case dtype::f16:
      return std::forward<Body>(body)(half{});
    case dtype::bf16:
      return std::forward<Body>(body)(bfloat16{});
    case dtype::i32:
    case dtype::i64:
    case dtype::u8:
      break;
  }
  std::abort();
}

/// The same of an output: the input's type T, or that of the arithmetic.
template <class T, class Body>
decltype(auto) with_output(dtype type, Body&& body) {
  if constexpr (!std::is_same_v<T, arithmetic_t<T>>) {
    if (type != dtype_of<T>) {
      return std::forward<Body>(body)(arithmetic_t<T>{});
    }
  }
  return std::forward<Body>(body)(T{});
}

/// The type of the arithmetic on an input type.
inline dtype arithmetic_type(dtype input) {
  return with_real(input, []<class T>(T) { return dtype_of<arithmetic_t<T>>; });
}

}  // namespace softfold::core
