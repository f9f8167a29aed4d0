// SPDX-License-Identifier: Apache-2.0
/// \file
/// What becomes of a row's weighted sums: those of two parts of the keys are added, those of all
/// keys are divided by the sum of the exponentials.
#pragma once

#include <backends/host/kernels/elements.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

template <class T>
struct attention_states {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  static constexpr int lanes = V::lanes;

  /// All arrays have room for whole vectors.
  static void add(void* o, void* lost, const void* more, std::int64_t n, double own, double other) {
    A* const to = static_cast<A*>(o);
    A* const rest = static_cast<A*>(lost);
    const A* const from = static_cast<const A*>(more);
    const V own_factor(static_cast<A>(own));
    const V other_factor(static_cast<A>(other));
    for (std::int64_t i = 0; i < n; i += lanes) {
      const V a = V::load(to + i) * own_factor;
      const V b = V::load(from + i) * other_factor;
      const V both = a + b;
      const V added = both - a;
      const V now = (a - (both - added)) + (b - added);
      (V::load(rest + i) * own_factor + now).store(rest + i);
      both.store(to + i);
    }
  }

  template <class Out>
  static void result(const void* o, const void* lost, std::int64_t n, double sum, void* y) {
    const A* const from = static_cast<const A*>(o);
    const A* const rest = static_cast<const A*>(lost);
    Out* const to = static_cast<Out*>(y);
    const V divisor(static_cast<A>(sum));
    const V nan(static_cast<A>(__builtin_nanf("")));
    for (std::int64_t i = 0; i < n; i += lanes) {
      V x = V::load(from + i);
      if (rest != nullptr) {
        const V whole = x + V::load(rest + i);
        x = V::select(unordered(whole, whole), x, whole);  // of an infinity it is NaN
      }
      x = x / divisor;
      x = V::select(unordered(x, x), nan, x);
      n - i < lanes ? x.store(to + i, static_cast<int>(n - i)) : x.store(to + i);
    }
  }
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
