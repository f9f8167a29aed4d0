// SPDX-License-Identifier: Apache-2.0
/// \file
/// A sum of two numbers without what its rounding loses.
#pragma once

#include <core/always_inline.hpp>

#include <softfold/config.hpp>

namespace softfold::core {

/// a + b = value + lost, value rounded and lost exact, for terms of any size and order (Knuth, The
/// Art of Computer Programming, 4.2.2). What is infinite or NaN makes `lost` NaN.
template <class A>
struct two_sum {
  A value;
  A lost;

  SOFTFOLD_HD static constexpr SOFTFOLD_INLINE two_sum of(A a, A b) {
    const A value = a + b;
    const A back = value - a;
    return {value, (a - (value - back)) + (b - back)};
  }
};

}  // namespace softfold::core
