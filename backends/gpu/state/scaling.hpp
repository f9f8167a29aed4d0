// SPDX-License-Identifier: Apache-2.0
/// \file
/// A scale as the kernels take it: a map of the elements, then a positive factor.
#pragma once

#include <gpu/state/exponential.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

enum class element_map : int {
  none,
  negate,  ///< negative scale
  zero,    ///< scale 0: every number becomes 0, but -infinity and NaN stay
};

struct scaling {
  double factor = 1;
  element_map map = element_map::none;

  static scaling of(double scale) {
    return scale > 0   ? scaling{scale, element_map::none}
           : scale < 0 ? scaling{-scale, element_map::negate}
                       : scaling{1, element_map::zero};
  }
};

/// What is done to an element before it is scaled.
template <class T>
__device__ inline T mapped(T x, element_map map) {
  if (map == element_map::negate) {
    return -x;
  }
  return map == element_map::zero && x > -infinity<T> ? T{0} : x;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
