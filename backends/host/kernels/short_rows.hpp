// SPDX-License-Identifier: Apache-2.0
/// \file
/// Rows of at most short_row_vectors vectors: one row after the other in one call, the
/// exponentials kept in the first-level cache, ends masked.
///
/// Most rows are near zero: nothing above 40, something above -20. They need no maximum; one
/// origin suits them all, which saves the reduction across lanes that short rows spend their
/// time on. The others are centred on their maximum.
#pragma once

#include <backends/host/kernels/elements.hpp>
#include <backends/host/kernels/exponentials.hpp>
#include <backends/host/kernels/lanes.hpp>
#include <backends/host/kernels/logarithm.hpp>
#include <backends/host/kernels/vector_logarithm.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// The last of reproducible rows only: numbers that become a row's probabilities.
enum class short_result { softmax, log_softmax, logsumexp, totals };

/// The range of a row's scaled maximum in which near_origin suits: e is at most 2^106, and the
/// sum of all elements of a short row finite; every normal probability comes from an e above
/// 2^-107.
inline constexpr double near_above = 40;
inline constexpr double near_below = -20;
inline constexpr double near_origin = -48;

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

/// The functions of one call: what is the same for all its rows.
template <class T, class Out, short_result result, bool scaled>
class short_row_writer {
  using A = arithmetic_t<T>;
  using V = vec<A>;

 public:
  explicit SOFTFOLD_INLINE short_row_writer(const short_rows& rows)
      : n_(rows.cols),
        scale_(static_cast<A>(rows.scale)),
        empty_(static_cast<A>(rows.empty_value)),
        above_(static_cast<A>(near_above / rows.scale)),
        below_(static_cast<A>(near_below / rows.scale)),
        near_(frame{.how = form::power, .scale = rows.scale, .origin = near_origin}) {}

  /// The softmax of a row of one vector, if it is near zero; everything stays in registers.
  SOFTFOLD_INLINE bool write_one_vector(const T* x, Out* y) const {
    const int n = static_cast<int>(n_);
    const V v = n == V::lanes ? V::load(x) : V::load(x, n, none());
    const bool near = V::bits(greater(v, above_)) == 0 && V::bits(greater(v, below_)) != 0;
    const V e = near_.exp(v);
    const A sum = e.reduce_add();
    if (!near || !(sum < infinity<A>)) [[unlikely]] {
      return false;
    }
    const V probabilities = e * V(A{1} / sum);
    if (n == V::lanes) {
      probabilities.store(y);
    } else {
      probabilities.store(y, n);
    }
    return true;
  }

  /// logsumexp of `count` <= lanes rows: one vector takes their logarithms. Rows that are not near
  /// zero go one by one, afterwards.
  SOFTFOLD_INLINE void write_logarithms(const T* x, std::int64_t x_stride, int count, Out* y,
                                        std::int64_t y_stride) const {
    V sum, best;
    if (n_ <= V::lanes) {
      add_columns(x, x_stride, count, sum, best);
    } else {
      add_rows(x, x_stride, count, sum, best);
    }
    alignas(64) A logs[static_cast<unsigned>(V::lanes)];
    log_of_scaled(sum, static_cast<A>(near_origin)).store(logs);
    for (int i = 0; i < count; ++i) {
      y[i * y_stride] = logs[i];
    }
    const unsigned near = V::bits(greater(best, below_)) & ~V::bits(greater(best, above_)) &
                          V::bits(greater(V(infinity<A>), sum));
    for (unsigned left = ~near & ((1u << count) - 1u); left != 0; left &= left - 1) {
      const int i = __builtin_ctz(left);
      write(x + i * x_stride, y + i * y_stride);
    }
  }

  /// Softmax or log-softmax of a row of one column, which gets all.
  SOFTFOLD_INLINE void write_column(const T* x, Out* y) const {
    const V scaled_element = V::load(x, 1, none()) * scale_;
    const A v = scaled_element.first_lane();
    const A nan = static_cast<A>(__builtin_nanf(""));
    const A all = result == short_result::softmax ? A{1} : A{0};
    V(v == -infinity<A> ? empty_ : v < infinity<A> ? all : nan).store(y, 1);
  }

  __attribute__((noinline)) void write(const T* x, Out* y) const {
    V best = none();
    for_each_vector(x, n_, none(), [&](V v, std::int64_t, int) { best = max(v, best); });
    const bool near = V::bits(greater(best, above_)) == 0 && V::bits(greater(best, below_)) != 0;
    if (near) [[likely]] {
      const auto log = [&](V v, split_number log_sum) {
        const A high = static_cast<A>(log_sum.high + log_sum.low);
        const double rest = (log_sum.high - static_cast<double>(high)) + log_sum.low;
        const V low(static_cast<A>(rest));
        if constexpr (scaled) {
          const V product = v * scale_;
          const V error =
              V::select(greater(product, none()), product_error(v, scale_, product), V(A{0}));
          return (product - V(high)) + (error - low);
        } else {
          return (v - V(high)) - low;
        }
      };
      write_as(x, y, near_, near_origin, 0, log);
    } else {
      const A m = best.reduce_max();
      const A top = m * scale_.first_lane();
      if (!(top > -infinity<A> && top < infinity<A>)) [[unlikely]] {
        write_extraordinary(x, y);
        return;
      }
      const V largest(m);
      const auto log = [&](V v, split_number log_sum) {
        const V low(static_cast<A>(log_sum.high + log_sum.low));
        if constexpr (scaled) {  // halved: the difference may be past the range, and the result not
          const V half(static_cast<A>(0.5));
          const V d = v * half - largest * half;
          V value;
          if constexpr (V::fma_rounds_once) {
            value = fma(d, scale_, V(A{0}) - low * half) * V(A{2});
          } else {
            const V p = d * scale_;
            const V error = V::select(greater(p, none()), product_error(d, scale_, p), V(A{0}));
            value = (p + (error - low * half)) * V(A{2});
          }
          return V::select(equal(v * scale_, none()), none(), value);
        } else {
          return (v - largest) - low;
        }
      };
      write_as(x, y, centred_form<A, scaled>(m, scale_.first_lane()), careful_origin, m, log);
    }
  }

 private:
  static SOFTFOLD_INLINE V none() { return V(-infinity<A>); }

  /// Sum and maximum of each of `count` rows of one vector, by columns: a lane for each row.
  SOFTFOLD_INLINE void add_columns(const T* x, std::int64_t x_stride, int count, V& sum,
                                   V& best) const {
    V tile[static_cast<unsigned>(V::lanes)];
#pragma GCC unroll 16
    for (int i = 0; i < V::lanes; ++i) {
      const T* const row = x + (i < count ? i : count - 1) * x_stride;
      prefetch_ahead(row);
      tile[i] = n_ == V::lanes ? V::load(row) : V::load(row, static_cast<int>(n_), none());
    }
    transpose(tile);
    V sums[4] = {V(A{0}), V(A{0}), V(A{0}), V(A{0})};
    best = none();
#pragma GCC unroll 16
    for (int i = 0; i < V::lanes; ++i) {
      best = max(tile[i], best);
      sums[i % 4] = sums[i % 4] + near_.exp(tile[i]);
    }
    sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  /// The same for rows of more vectors.
  SOFTFOLD_INLINE void add_rows(const T* x, std::int64_t x_stride, int count, V& sum,
                                V& best) const {
    V sums[static_cast<unsigned>(V::lanes)], maxima[static_cast<unsigned>(V::lanes)];
    for (int i = 0; i < V::lanes; ++i) {
      const T* const row = x + (i < count ? i : count - 1) * x_stride;
      V row_sum(A{0});
      V row_best = none();
      for_each_vector(row, n_, none(), [&](V v, std::int64_t at, int) {
        prefetch_ahead(row + at);
        row_best = max(v, row_best);
        row_sum = row_sum + near_.exp(v);
      });
      sums[i] = row_sum;
      maxima[i] = row_best;
    }
    sum = across(sums, [](V a, V b) { return a + b; });
    best = across(maxima, [](V a, V b) { return max(a, b); });
  }

  /// One row with a given form, whose exponentials are relative to 2^origin and to the element m.
  /// log(v, log_sum) is an element's log-probability, log_sum being relative to m.
  template <class Form, class Log>
  SOFTFOLD_INLINE void write_as(const T* x, Out* y, const Form& form, double origin, A m,
                                Log&& log) const {
    alignas(64) A kept[short_row_vectors * V::lanes];
    V sums = V(A{0});
    for_each_vector(x, n_, none(), [&](V v, std::int64_t i, int) {
      const V e = form.exp(v);
      if constexpr (result == short_result::softmax) {
        e.store(kept + i);
      }
      sums = sums + e;
    });
    const A sum = sums.reduce_add();
    if (!(sum < infinity<A>)) [[unlikely]] {
      write_extraordinary(x, y);
    } else if constexpr (result == short_result::softmax) {
      const V factor(A{1} / sum);
      map_elements(static_cast<const A*>(kept), n_, y, false, [&](V e) { return e * factor; });
    } else if constexpr (result == short_result::log_softmax) {
      const split_number log_sum = log_of_scaled(static_cast<double>(sum), origin);
      map_elements(x, n_, y, false, [&](V v) { return min(V(A{0}), log(v, log_sum)); });
    } else {
      const split_number log_sum = log_of_scaled(static_cast<double>(sum), origin);
      y[0] = static_cast<A>(__builtin_fma(static_cast<double>(scale_.first_lane()),
                                          static_cast<double>(m), log_sum.high + log_sum.low));
    }
  }

  /// NaN or +infinity in the scaled row, or nothing above -infinity.
  void write_extraordinary(const T* x, Out* y) const {
    V best = none();
    typename V::mask unordered_lanes = V::none();
    for_each_vector(x, n_, none(), [&](V v, std::int64_t, int) {
      best = max(v, best);
      unordered_lanes = V::either(unordered_lanes, unordered(v, v));
    });
    const bool has_nan = V::bits(unordered_lanes) != 0;
    const A m = best.reduce_max() * scale_.first_lane();
    const A nan = static_cast<A>(__builtin_nanf(""));
    if constexpr (result == short_result::logsumexp) {
      y[0] = has_nan ? nan : m;
    } else {
      const V fill(has_nan || m > -infinity<A> ? nan : empty_);
      map_elements(x, n_, y, false, [&](V) { return fill; });
    }
  }

  std::int64_t n_;
  V scale_;
  A empty_;
  V above_, below_;
  power_form<A, scaled> near_;
};

template <class T, class Out, short_result result, bool scaled>
void short_rows_of(const short_rows& rows) {
  const short_row_writer<T, Out, result, scaled> writer(rows);
  const T* x = static_cast<const T*>(rows.x);
  Out* y = static_cast<Out*>(rows.y);
  if constexpr (result == short_result::logsumexp && sizeof(Out) == 4) {
    constexpr int lanes = vec<float>::lanes;
    for (std::int64_t r = 0; r < rows.rows; r += lanes) {
      const auto count = static_cast<int>(rows.rows - r < lanes ? rows.rows - r : lanes);
      writer.write_logarithms(x + r * rows.x_stride, rows.x_stride, count, y + r * rows.y_stride,
                              rows.y_stride);
    }
    return;
  }
  for (std::int64_t r = 0; r < rows.rows; ++r, x += rows.x_stride, y += rows.y_stride) {
    if constexpr (result != short_result::logsumexp) {
      if (rows.cols == 1) [[unlikely]] {
        writer.write_column(x, y);
        continue;
      }
    }
    if constexpr (result == short_result::softmax) {
      if (rows.cols <= vec<arithmetic_t<T>>::lanes && writer.write_one_vector(x, y)) {
        continue;
      }
    }
    writer.write(x, y);
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
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
