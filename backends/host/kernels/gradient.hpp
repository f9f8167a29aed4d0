// SPDX-License-Identifier: Apache-2.0
/// \file
/// The gradients of softmax and log-softmax: a sum over a row of the results y and their gradient
/// dy, then a map of both.
///
/// The sum's terms have either sign, so its error is measured by the sum of their magnitudes. An
/// accumulator takes 8 terms; blocks of that are added up in double, with the rounding errors
/// carried along. A sum that is not finite is NaN.
#pragma once

#include <backends/host/kernels/elements.hpp>
#include <backends/host/kernels/exponentials.hpp>

#include <limits>
#include <type_traits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// sum of y[i] dy[i].
template <class T>
struct softmax_gradient {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  using terms = two_rows<T>;  ///< what the sum reads
  static SOFTFOLD_INLINE terms terms_of(const T* y, const T* dy) { return {y, dy}; }
  static SOFTFOLD_INLINE V add(V sum, const typename terms::pair& v) { return fma(v.a, v.b, sum); }

  V sum, scale;
  SOFTFOLD_INLINE softmax_gradient(A row_sum, A s) : sum(row_sum), scale(s) {}
  SOFTFOLD_INLINE V operator()(const typename two_rows<T>::pair& v) const {
    return unscaled(v) * scale;
  }
  SOFTFOLD_INLINE V unscaled(const typename two_rows<T>::pair& v) const {
    return v.a * (v.b - sum);
  }
  /// Whether unscaled() is never NaN. A finite sum has finite terms only; that dy - sum is
  /// infinite, to be multiplied by 0, needs a sum of half a unit in the last place of the largest
  /// number.
  static SOFTFOLD_INLINE bool stays_finite(A row_sum) {
    constexpr A small = std::numeric_limits<A>::max() * std::numeric_limits<A>::epsilon() / 8;
    return row_sum < small && row_sum > -small;
  }
};

/// sum of dy[i].
template <class T>
struct log_softmax_gradient {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  using terms = one_row<T>;
  static SOFTFOLD_INLINE terms terms_of(const T*, const T* dy) { return {dy}; }
  static SOFTFOLD_INLINE V add(V sum, V v) { return sum + v; }

  /// exp(y) is computed halved: it has an exponent to spare up to where it overflows.
  static constexpr double origin = 1;
  V sum, scale, lowest, highest, magic;
  SOFTFOLD_INLINE log_softmax_gradient(A row_sum, A s)
      : sum(row_sum),
        scale(s),
        lowest(flush_below<A>(origin)),
        highest(static_cast<A>((core::exponential<A>::exponent_bias + 1) * 0.6931471805599453)),
        magic(magic_for<A>(origin)) {}

  SOFTFOLD_INLINE V operator()(const typename two_rows<T>::pair& v) const {
    const V y = max(lowest, v.a);  // keeps a NaN
    const V half =
        V::select(greater(y, highest), V(infinity<A>), exponential_of<A, false>(y, y, magic));
    return fma(half * sum, V(A{-2}), v.b) * scale;
  }
};

template <class T, class Out, template <class> class Gradient>
struct gradient_kernels {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  using gradient = Gradient<T>;
  static constexpr int accumulators = 8;
  static constexpr std::int64_t block_columns = 8 * accumulators * V::lanes;

  /// The sum of at most block_columns terms.
  static SOFTFOLD_INLINE A sum_of_block(const typename gradient::terms& from, std::int64_t begin,
                                        std::int64_t end) {
    V sums[accumulators];
#pragma GCC unroll 8
    for (V& sum : sums) {
      sum = V(A{0});
    }
    std::int64_t i = begin;
    for (; i + accumulators * V::lanes <= end; i += accumulators * V::lanes) {
#pragma GCC unroll 8
      for (int k = 0; k < accumulators; ++k) {
        sums[k] = gradient::add(sums[k], from.load(i + k * V::lanes));
      }
    }
#pragma GCC unroll 8
    for (int k = 0; k < accumulators; ++k, i += V::lanes) {
      if (end - i >= V::lanes) {
        sums[k] = gradient::add(sums[k], from.load(i));
      } else {
        if (i < end) {
          sums[k] = gradient::add(sums[k], from.load(i, static_cast<int>(end - i)));
        }
        break;
      }
    }
    return (((sums[0] + sums[1]) + (sums[2] + sums[3])) +
            ((sums[4] + sums[5]) + (sums[6] + sums[7])))
        .reduce_add();
  }

  static SOFTFOLD_INLINE compensated_sum sum_of(const T* y, const T* dy, std::int64_t n) {
    const typename gradient::terms from = gradient::terms_of(y, dy);
    if (n <= block_columns) {
      return {static_cast<double>(sum_of_block(from, 0, n)) + 0.0, 0};
    }
    compensated_sum total;
    for (std::int64_t begin = 0; begin < n; begin += block_columns) {
      const std::int64_t end = n - begin < block_columns ? n : begin + block_columns;
      total.add(static_cast<double>(sum_of_block(from, begin, end)));
    }
    return total;
  }

  static void sum(const void* y, const void* dy, std::int64_t n, compensated_sum* result) {
    *result = sum_of(static_cast<const T*>(y), static_cast<const T*>(dy), n);
  }

  static SOFTFOLD_INLINE void map_row(const T* y, const T* dy, std::int64_t n, A sum, A scale,
                                      Out* dx, bool stream) {
    const V nan(static_cast<A>(__builtin_nanf("")));
    if (!(sum - sum == A{0})) [[unlikely]] {
      map_elements(dy, n, dx, false, [&](V) { return nan; });
      return;
    }
    const gradient g(sum, scale);
    const two_rows<T> from{y, dy};
    if constexpr (std::is_same_v<gradient, softmax_gradient<T>>) {
      if (scale == 1 && gradient::stays_finite(sum)) {  // as a rule: the same bits with less work
        map_source(from, n, dx, stream,
                   [&](const typename two_rows<T>::pair& v) { return g.unscaled(v); });
        return;
      }
    }
    map_source(from, n, dx, stream, [&](const typename two_rows<T>::pair& v) {
      const V r = g(v);
      return V::select(unordered(r, r), nan, r);
    });
  }

  static void map(const void* y, const void* dy, std::int64_t n, double sum, double scale,
                  destination dx) {
    map_row(static_cast<const T*>(y), static_cast<const T*>(dy), n, static_cast<A>(sum),
            static_cast<A>(scale), static_cast<Out*>(dx.data), dx.stream);
  }

  /// One row after the other, of at most short_row_vectors vectors.
  static void short_rows(const gradient_rows* rows) {
    const T* y = static_cast<const T*>(rows->y);
    const T* dy = static_cast<const T*>(rows->dy);
    Out* dx = static_cast<Out*>(rows->dx);
    const std::int64_t n = rows->cols;
    const A scale = static_cast<A>(rows->scale);
    for (std::int64_t r = 0; r < rows->rows; ++r) {
      const compensated_sum sum = sum_of(y, dy, n);
      map_row(y, dy, n, static_cast<A>(sum.total()), scale, dx, false);
      y += rows->y_stride;
      dy += rows->dy_stride;
      dx += rows->dx_stride;
    }
  }
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
