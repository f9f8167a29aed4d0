// SPDX-License-Identifier: Apache-2.0
/// \file
/// A multiplication and an addition in one rounding, by every instruction set.
#pragma once

#include <backends/host/kernels/lanes.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// a * b + c, rounded once on every processor.
template <class A>
SOFTFOLD_INLINE vec<A> fused(vec<A> a, vec<A> b, vec<A> c) {
  if constexpr (vec<A>::fma_rounds_once) {
    return fma(a, b, c);
  } else {
    vec<A> r;
    for (int i = 0; i < vec<A>::lanes; ++i) {
      if constexpr (sizeof(A) == 4) {
        r.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]);
      } else {
        r.v[i] = __builtin_fma(a.v[i], b.v[i], c.v[i]);
      }
    }
    return r;
  }
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
