// SPDX-License-Identifier: Apache-2.0
/// \file
/// The second pass over a row: every element to its probability or log-probability.
#pragma once

#include <backends/host/kernels/fold.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

template <class T>
void exponentials_kernel(const void* x, std::int64_t n, const frame* f, void* e) {
  using A = arithmetic_t<T>;
  with_form<A>(*f, 0, 0, [&](const auto& form) {
    map_elements(static_cast<const T*>(x), n, static_cast<A*>(e), false,
                 [&](vec<A> v) { return form.exp(v); });
  });
}

template <class T, class Out>
struct row_output {
  using A = arithmetic_t<T>;
  using V = vec<A>;

  // e(x) is rounded before it is multiplied, exactly as when exponentials are kept and scaled
  // later: the two ways give the same bits.
  static void probabilities(const void* x, std::int64_t n, const frame* f, double factor,
                            destination y) {
    const V r(static_cast<A>(factor));
    with_form<A>(*f, 0, 0, [&](const auto& form) {
      map_elements(static_cast<const T*>(x), n, static_cast<Out*>(y.data), y.stream,
                   [&](V v) { return form.exp(v) * r; });
    });
  }

  // No logarithm is above 0. The order of min's operands keeps a NaN.
  static void log_probabilities(const void* x, std::int64_t n, const frame* f, double high,
                                double low, destination y) {
    with_form<A>(*f, high, low, [&](const auto& form) {
      map_elements(static_cast<const T*>(x), n, static_cast<Out*>(y.data), y.stream,
                   [&](V v) { return min(V(A{0}), form.log(v)); });
    });
  }

  static void scaled(const void* e, std::int64_t n, double factor, destination y) {
    const V r(static_cast<A>(factor));
    map_elements(static_cast<const A*>(e), n, static_cast<Out*>(y.data), y.stream,
                 [&](V v) { return v * r; });
  }

  static bool fold_and_stream(const void* x, std::int64_t n, double scale, kept_row kept,
                              segment_state* state, const void* e, double factor, void* y) {
    const T* const in = static_cast<const T*>(x);
    const scaling_beside<T, Out> other(in, static_cast<const A*>(e), n, static_cast<Out*>(y),
                                       by_factor<A>(factor));
    return scale == 1 ? fold_and_keep<false>(in, n, scale, kept, state, other)
                      : fold_and_keep<true>(in, n, scale, kept, state, other);
  }
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
