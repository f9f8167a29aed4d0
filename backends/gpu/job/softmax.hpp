// SPDX-License-Identifier: Apache-2.0
/// \file
/// softmax, log-softmax, logsumexp, fold and normalize as jobs: a matrix's rows, the softmax's
/// state, and what is written of them.
#pragma once

#include <gpu/group/fold_tile.hpp>
#include <gpu/job/row_source.hpp>
#include <gpu/state/results.hpp>

#include <core/problem.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Source and state. A job of it has a sink, too.
template <class In>
struct softmax_fold {
  using element = In;
  using T = arithmetic_t<In>;
  using monoid = softmax_monoid<T>;
  using state = softmax_state<T>;
  using results = row_results<T>;
  static constexpr int matrices = 1;
  using whole = softmax_fold;
  static constexpr bool only_plain = false;

  row_source<In> source;
  T scale;
  element_map map;

  static softmax_fold of(const const_matrix_ref& x, double scale) {
    const scaling how = scaling::of(scale);
    return {row_source<In>::of(x), static_cast<T>(how.factor), how.map};
  }
  [[nodiscard]] softmax_fold part(std::int64_t first, std::int64_t rows) const {
    return {source.part(first, rows), scale, map};
  }
  [[nodiscard]] row_shape shape() const { return source.shape(); }
  /// Whether all rows begin at sectors and are whole vectors, and no element is mapped.
  [[nodiscard]] bool is_plain() const {
    return map == element_map::none && source.cols % vector_width<In> == 0 &&
           source.starts_at(sector_bytes);
  }

  [[nodiscard]] __host__ __device__ monoid states() const { return {scale}; }

  /// What a thread holds of a row.
  template <int V, bool plain>
  using held = tile<In, V, plain>;
  template <int V, bool plain = false>
  [[nodiscard]] __device__ held<V, plain> hold(std::int64_t, const vector_range<In>& range,
                                               int first, int step) const {
    return {range, first, step};
  }
  /// What is done to elements before they are folded.
  template <int V, bool plain>
  __device__ void edit(tile<In, V, plain>& own) const {
    own.apply(map);
  }

  /// The state of what `count` lanes hold of a row; if `keep`, the exponentials are kept, of
  /// precision p.
  template <int lanes, precision p, bool keep, int V, bool plain>
  __device__ state fold(tile<In, V, plain>& own, int count) const {
    return fold_tile<lanes, p, keep>(own, scale, count);
  }
  /// The same of all lanes of a warp, which may hold less of a long row than they could.
  template <int lanes, precision p, bool keep, int V, bool plain>
  __device__ state fold_part(tile<In, V, plain>& own) const {
    return gpu::fold_part<lanes, p, keep>(own, scale);
  }
};

enum class map_operation { softmax, log_softmax };

template <class Out>
inline constexpr precision precision_for = sizeof(Out) == 2 ? precision::fast : precision::exact;

/// What the second look at a row needs.
template <class T>
struct row_result {
  frame<T> whole;
  /// Finite for an ordinary row, -infinity for an empty one, +infinity for one of one column,
  /// which gets all; NaN for those whose results are NaN.
  T max;
  T sum;             ///< for log-softmax its logarithm
  bool far = false;  ///< a given maximum that each product of scale and element is rounded like

  /// `alone`: the row has one column.
  template <map_operation op>
  __device__ static row_result of(const softmax_state<T>& s, T scale, bool alone) {
    const T top = scale * s.max;
    const T max = isfinite(top) ? (alone ? infinity<T> : s.max) : without_infinity(top);
    return {frame<T>::of(s.max, scale), max, sum_for<op>(s.sum)};
  }
  template <map_operation op>
  __device__ static row_result of(const max_sum<T>& given, T scale) {
    const bool empty = given.max == -infinity<T> || given.sum <= 0;
    const T max = given.sum != given.sum ? given.sum
                  : empty                ? -infinity<T>
                                         : without_infinity(given.max);
    return {{scale, given.max, T{1}}, max, sum_for<op>(given.sum), is_far(max)};
  }

  /// The same of a row whose maximum was not given: for the compiler, which then drops `far`.
  [[nodiscard]] __device__ row_result folded() const {
    row_result same = *this;
    same.far = false;
    return same;
  }

 private:
  __device__ static T without_infinity(T max) {
    return max == infinity<T> ? std::numeric_limits<T>::quiet_NaN() : max;
  }
  template <map_operation op>
  __device__ static T sum_for(T sum) {
    return op == map_operation::log_softmax ? log(sum) : sum;
  }
};

/// Calls body with the function from an element to its result, and whether it is the quick one for
/// ordinary rows. All others share the other one: a kernel's warps wait for instructions if it has
/// several times as many as the caches of a multiprocessor take. It gives some number where the
/// row's maximum is not finite.
///
/// An element that scales to -infinity has the logarithm -infinity. With an ordinary maximum
/// its exponent is that by itself; far from zero the difference may be a number.
template <map_operation op, class Out, class T, class Body>
__device__ inline void with_value(const row_result<T>& row, const Body& body) {
  constexpr bool log_of = op == map_operation::log_softmax;
  const frame<T>& f = row.whole;
  const T factor = 1 / row.sum;
  const auto result = [&](T t) {
    return log_of ? min_or_nan(t - row.sum, T{0}) : exponential<precision::exact>(t) * factor;
  };
  const bool is_ordinary = isfinite(row.max) && !row.far && (!log_of || f.c == 1);
  if constexpr (!log_of && precision_for<Out> == precision::fast && sizeof(T) == 4) {
    if (is_ordinary && binary_exponential::is_right_for(f)) {
      const binary_exponential exponential(f);
      const T both = exponential.factor * factor;
      body([&](T x) { return exponential(x) * both; }, std::true_type());
      return;
    }
  } else if (is_ordinary) {
    body([&](T x) { return result(f.exponent(x)); }, std::true_type());
    return;
  }
  body(
      [&](T x) {
        const bool vanishes = log_of && x * f.a * f.c == -infinity<T>;
        return result(vanishes ? -infinity<T> : row.far ? x * f.a - f.b : f.exponent(x));
      },
      std::false_type());
}

/// softmax or log-softmax, and normalize, whose states are given.
template <map_operation op, class In, class Out, class Fold = softmax_fold<In>>
struct softmax_map {
  using T = arithmetic_t<In>;
  using fold_type = Fold;
  using output = Out;
  using state = softmax_state<T>;
  using result = row_result<T>;
  static constexpr precision of_exponentials = precision_for<Out>;
  /// Whether V vectors' exponentials are kept between the looks.
  template <int V>
  static constexpr bool keeps = tile<In, V>::keeps&& op == map_operation::softmax;

  /// The same where warps have a part of a row each: its own maximum is not the row's, and a
  /// difference to it may round where the other does not. f32's exponentials are made twice, which
  /// by blocks takes no time beside the memory's; f64's would (docs/notes.md).
  static constexpr precision of_parts =
      of_exponentials == precision::exact ? precision::compensated : precision::fast;
  template <int V>
  static constexpr bool keeps_parts = keeps<V> && (of_parts == precision::fast || sizeof(T) == 8);

  fold_type fold;
  Out* y;
  std::int64_t y_stride;
  Out empty;                ///< what an empty row is filled with
  const max_sum<T>* given;  ///< the rows' public states, or null

  static softmax_map of(const fold_type& fold, const matrix_ref& y, empty_row policy,
                        const void* given = nullptr) {
    const double empty = policy == empty_row::nan ? std::numeric_limits<double>::quiet_NaN()
                         : op == map_operation::log_softmax
                             ? -std::numeric_limits<double>::infinity()
                             : 0;
    return {fold, static_cast<Out*>(y.data), y.stride, Out(static_cast<arithmetic_t<Out>>(empty)),
            static_cast<const max_sum<T>*>(given)};
  }
  [[nodiscard]] softmax_map part(std::int64_t first, std::int64_t rows) const {
    return {fold.part(first, rows), y + first * y_stride, y_stride, empty, given};
  }
  [[nodiscard]] bool is_plain() const {
    return fold.is_plain() &&
           row_source<Out>::begins_at(y, fold.source.rows, y_stride, sector_bytes);
  }

  [[nodiscard]] __host__ __device__ bool is_given() const { return given != nullptr; }
  [[nodiscard]] __device__ result result_of(const state& whole) const {
    return result::template of<op>(whole, fold.scale, fold.source.cols == 1);
  }
  [[nodiscard]] __device__ result given_result(std::int64_t row) const {
    return result::template of<op>(given[row], fold.scale);
  }

  /// Whether each element becomes the same: in a row whose maximum is not finite; and what.
  [[nodiscard]] __device__ static bool is_filled(const result& row) { return !isfinite(row.max); }
  [[nodiscard]] __device__ Out filling(const result& row) const {
    return row.max == -infinity<T>  ? empty
           : row.max == infinity<T> ? Out(arithmetic_t<Out>(op == map_operation::softmax ? 1 : 0))
                                    : canonical_nan<Out>();
  }

  /// Writes what a thread holds of a row, to global memory if `once`. If `kept`, of its
  /// exponentials, which are in the frame of the state `local`: the elements take no registers
  /// then. `to` corresponds to the range's base.
  template <bool kept, bool once, int V, bool plain>
  __device__ void write(const tile<In, V, plain>& own, Out* to, const result& row,
                        const state& local) const {
    const bool is_number = isfinite(row.max);
    const block16 without_sum = repeated(filling(row));
    if constexpr (kept) {
      if (is_number) {
        const T factor = own.kept_factor() *
                         state{local.max, 0}.template factor<of_parts>(row.max, fold.scale) /
                         row.sum;
        own.template store<once>(to, [&](int j, int part) {
          return own.template values<true, Out>(j, part, [&](T e) { return e * factor; });
        });
      } else {
        own.template store<once>(to, [&](int, int) { return without_sum; });
      }
    } else {
      with_value<op, Out>(row, [&](const auto& value, auto is_quick) {
        own.template store<once>(to, [&](int j, int part) {
          const block16 values = own.template values<false, Out>(j, part, value);
          return is_quick() || is_number ? values : without_sum;
        });
      });
    }
  }

  /// Calls body with the function from an element of a row that is not filled, as it was read, to
  /// its result.
  template <class Body>
  __device__ void with_results(const result& row, const Body& body) const {
    with_value<op, Out>(row, [&](const auto& value, auto) {
      if (fold.map == element_map::none) {
        body(value);
      } else {
        body([&](T x) { return value(mapped(x, fold.map)); });
      }
    });
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
