// SPDX-License-Identifier: Apache-2.0
/// \file
/// Rows of at most short_row_vectors vectors: one row after the other in one call, the
/// exponentials kept in registers or the first-level cache, ends masked.
#pragma once

#include "elements.hpp"
#include "exponentials.hpp"

namespace softfold::cpu_backend {
namespace {

enum class short_result { softmax, log_softmax, logsumexp };

/// exp(s (x - m)) 2^-careful_origin, for s = 1 or s large enough that s * infinity is infinite.
template <class A, bool scaled>
struct centred_form {
  static constexpr A nothing = -infinity<A>;
  vec<A> m, scale, lowest, magic;
  SOFTFOLD_INLINE centred_form(A largest, A s)
      : m(largest),
        scale(s),
        lowest(flush_below<A>(careful_origin)),
        magic(magic_for<A>(careful_origin)) {}

  SOFTFOLD_INLINE vec<A> exp(vec<A> x) const {
    const vec<A> d = x - m;
    if constexpr (scaled) {
      const vec<A> product = d * scale;
      const vec<A> v = max(lowest, product);
      const vec<A> error =
          vec<A>::select(greater(v, lowest), product_error(d, scale, product), vec<A>(A{0}));
      return exponential_of<A, true>(v, error, magic);
    } else {
      const vec<A> v = max(lowest, d);
      return exponential_of<A, false>(v, v, magic);
    }
  }
};

SOFTFOLD_INLINE double log_of_sum(double sum) {
  return __builtin_log(
      sum * __builtin_bit_cast(double, (1023 + static_cast<std::int64_t>(careful_origin)) << 52));
}

template <class T, class Out, short_result result, bool scaled>
void short_rows_of(const short_rows& rows) {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  const std::int64_t n = rows.cols;
  const T* x = static_cast<const T*>(rows.x);
  Out* y = static_cast<Out*>(rows.y);
  const A s = static_cast<A>(rows.scale);
  const V none(-infinity<A>);
  alignas(64) A kept[short_row_vectors * V::lanes];
  for (std::int64_t r = 0; r < rows.rows; ++r, x += rows.x_stride, y += rows.y_stride) {
    V best = none;
    for_each_vector(x, n, none, [&](V v, std::int64_t, int) { best = max(v, best); });
    const A m = best.reduce_max();
    const centred_form<A, scaled> form(m, s);
    V sums = V(A{0});
    for_each_vector(x, n, none, [&](V v, std::int64_t i, int) {
      const V e = form.exp(v);
      if constexpr (result == short_result::softmax) {
        e.store(kept + i);
      }
      sums = sums + e;
    });
    const A sum = sums.reduce_add();
    if (!(sum < infinity<A>)) [[unlikely]] {
      // NaN or infinity in the row, or nothing above -infinity, where m - m is NaN too.
      bool has_nan = false;
      for_each_vector(x, n, none, [&](V v, std::int64_t, int) {
        has_nan = has_nan || V::bits(unordered(v, v)) != 0;
      });
      const bool empty = !has_nan && m < infinity<A>;
      const A nan = static_cast<A>(__builtin_nanf(""));
      if constexpr (result == short_result::logsumexp) {
        y[0] = has_nan ? nan : m;
      } else {
        const V fill(empty ? static_cast<A>(rows.empty_value) : nan);
        map_elements(x, n, y, false, [&](V) { return fill; });
      }
      continue;
    }
    if constexpr (result == short_result::softmax) {
      const V factor(A{1} / sum);
      map_elements(static_cast<const A*>(kept), n, y, false, [&](V e) { return e * factor; });
    } else if constexpr (result == short_result::log_softmax) {
      const V log_sum(static_cast<A>(log_of_sum(sum)));
      const V largest(m);
      map_elements(x, n, y, false, [&](V v) {
        if constexpr (scaled) {
          return fma(v - largest, V(s), V(A{0}) - log_sum);
        } else {
          return (v - largest) - log_sum;
        }
      });
    } else {
      y[0] = static_cast<A>(rows.scale * static_cast<double>(m) + log_of_sum(sum));
    }
  }
}

template <class T, class Out, short_result result>
void short_rows_kernel(const short_rows* rows) {
  if (rows->scale == 1) {
    short_rows_of<T, Out, result, false>(*rows);
  } else {
    short_rows_of<T, Out, result, true>(*rows);
  }
}

}  // namespace
}  // namespace softfold::cpu_backend
