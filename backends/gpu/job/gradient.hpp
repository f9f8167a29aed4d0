// SPDX-License-Identifier: Apache-2.0
/// \file
/// The gradients of softmax and log-softmax as jobs: the rows of y and of dy side by side, the sum
/// of y dy or of dy, and dx.
#pragma once

#include <gpu/group/combine.hpp>
#include <gpu/job/row_source.hpp>
#include <gpu/row/tile.hpp>
#include <gpu/state/exponential.hpp>

#include <core/problem.hpp>

#include <cstdint>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// V vectors of y and those of dy at the same columns. Where dy lies differently in vectors, it is
/// read by words.
template <class In, int V, bool plain>
struct tile_pair {
  using tile_type = tile<In, V, plain, outside::zero>;

  tile_type y;
  tile_type dy;
  bool alike;

  template <bool once = false>
  __device__ void load() {
    y.template load<once>();
    if (plain || alike) {
      dy.template load<once>();
    } else {
      dy.load_by_words();
    }
  }
  /// See tile: what the first look made of 16-bit elements would fill registers until the second.
  __device__ void forget() {
    y.forget();
    dy.forget();
  }
  /// Takes the vectors from copies in shared memory; `shift`: see tile.
  __device__ void load(const block16* y_copy, const block16* dy_copy, int shift) {
    y.load(y_copy);
    if (plain || shift == 0) {
      dy.load(dy_copy);
    } else {
      dy.load(dy_copy, shift);
    }
  }
  template <bool once = false>
  __device__ void load_long() {
    y.template load_long<once>();
    if (plain || alike) {
      dy.template load_long<once>();
    } else {
      dy.load_by_words();
    }
  }
};

enum class gradient_of { softmax, log_softmax };

/// Reductions of a gradient's state alone are not asked for.
template <class T>
struct no_results {
  [[nodiscard]] __device__ static bool wanted() { return false; }
  __device__ static void write(const sum_monoid<T>&, T, std::int64_t) {}
};

template <gradient_of op, class In>
struct gradient_fold {
  using element = In;
  using T = arithmetic_t<In>;
  using monoid = sum_monoid<T>;
  using state = T;
  using results = no_results<T>;
  static constexpr int matrices = 2;
  using whole = gradient_fold;
  static constexpr bool only_plain = false;  ///< see masked_softmax_fold

  row_source<In> source;  ///< y
  row_source<In> dy;

  [[nodiscard]] gradient_fold part(std::int64_t first, std::int64_t rows) const {
    return {source.part(first, rows), dy.part(first, rows)};
  }
  [[nodiscard]] row_shape shape() const {
    row_shape both = source.shape();
    both.matrices = matrices;
    const auto distance =
        reinterpret_cast<std::uintptr_t>(source.x) - reinterpret_cast<std::uintptr_t>(dy.x);
    both.alike = distance % vector_bytes == 0 &&
                 (source.rows == 1 || (source.stride - dy.stride) % vector_width<In> == 0);
    return both;
  }
  [[nodiscard]] bool is_plain() const {
    return source.cols % vector_width<In> == 0 && source.starts_at(sector_bytes) &&
           dy.starts_at(sector_bytes);
  }

  [[nodiscard]] __host__ __device__ monoid states() const { return {}; }

  /// The same columns of dy as `range` has of y.
  [[nodiscard]] __device__ vector_range<In> beside(std::int64_t row,
                                                   const vector_range<In>& range) const {
    vector_range<In> same = range;
    same.base = dy.row(row) + (range.base - source.row(row));
    same.memory = dy.memory;
    return same;
  }

  template <int V, bool plain>
  using held = tile_pair<In, V, plain>;
  template <int V, bool plain = false>
  [[nodiscard]] __device__ held<V, plain> hold(std::int64_t row, const vector_range<In>& range,
                                               int first, int step) const {
    const vector_range<In> of_dy = beside(row, range);
    return {{range, first, step},
            {of_dy, first, step},
            plain || reinterpret_cast<std::uintptr_t>(of_dy.base) % vector_bytes == 0};
  }
  template <int V, bool plain>
  __device__ static void edit(tile_pair<In, V, plain>&) {}

  template <int lanes, precision p, bool keep, int V, bool plain>
  __device__ static state fold(tile_pair<In, V, plain>& own, int count) {
    T sums[2] = {0, 0};
#pragma unroll
    for (int j = 0; j < V; ++j) {
#pragma unroll
      for (int i = 0; i < vector_width<In>; ++i) {
        const T dy = own.dy.element(j, i);
        sums[i % 2] += op == gradient_of::softmax ? own.y.element(j, i) * dy : dy;
      }
    }
    return sum_over_lanes(sums[0] + sums[1], count);
  }
  template <int lanes, precision p, bool keep, int V, bool plain>
  __device__ static state fold_part(tile_pair<In, V, plain>& own) {
    return fold<lanes, p, keep>(own, lanes);
  }
};

template <gradient_of op, class In, class Out>
struct gradient_map {
  using T = arithmetic_t<In>;
  using fold_type = gradient_fold<op, In>;
  using output = Out;
  using state = T;
  struct result {
    T sum;
    [[nodiscard]] __device__ result folded() const { return *this; }
  };
  static constexpr precision of_exponentials = precision::exact;
  static constexpr precision of_parts = of_exponentials;
  template <int V>
  static constexpr bool keeps = false;
  template <int V>
  static constexpr bool keeps_parts = keeps<V>;

  fold_type fold;
  Out* y;  ///< dx
  std::int64_t y_stride;
  T scale;

  static gradient_map of(const core::backward_problem& p) {
    return {{row_source<In>::of(p.y), row_source<In>::of(p.dy)},
            static_cast<Out*>(p.dx.data),
            p.dx.stride,
            static_cast<T>(p.scale)};
  }
  [[nodiscard]] gradient_map part(std::int64_t first, std::int64_t rows) const {
    return {fold.part(first, rows), y + first * y_stride, y_stride, scale};
  }
  [[nodiscard]] bool is_plain() const {
    return fold.is_plain() &&
           row_source<Out>::begins_at(y, fold.source.rows, y_stride, sector_bytes);
  }

  [[nodiscard]] __host__ __device__ static constexpr bool is_given() { return false; }
  [[nodiscard]] __device__ static result result_of(state whole) { return {whole}; }
  [[nodiscard]] __device__ static result given_result(std::int64_t) { return {}; }

  /// Whether each element becomes the same: in a row whose sum is not finite; and what.
  [[nodiscard]] __device__ static bool is_filled(const result& row) { return !isfinite(row.sum); }
  [[nodiscard]] __device__ static Out filling(const result&) { return canonical_nan<Out>(); }

  template <bool kept, bool once, int V, bool plain>
  __device__ void write(tile_pair<In, V, plain>& own, Out* to, const result& row, state) const {
    own.forget();
    if (!is_filled(row)) {
      own.y.template store<once>(to, [&](int j, int part) {
        return values(own.y.vector(j), own.dy.vector(j), part, row);
      });
    } else {
      const block16 nan = repeated(filling(row));
      own.y.template store<once>(to, [&](int, int) { return nan; });
    }
  }

  /// Part `part` of the results of a vector of y and that of dy beside it, in a row that is not
  /// filled.
  [[nodiscard]] __device__ block16 values(const block16& y, const block16& dy, int part,
                                          const result& row) const {
    constexpr int each = vector_width<Out>;
    T results[each];
    bool numbers = true;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const T y_i = element_of<In>(y, part * each + i);
      const T dy_i = element_of<In>(dy, part * each + i);
      results[i] = op == gradient_of::softmax ? y_i * (dy_i - row.sum) * scale
                                              : (dy_i - exponential_of_any(y_i) * row.sum) * scale;
      numbers = numbers && results[i] == results[i];
    }
    block16 all = packed<Out>([&](int i) { return results[i]; });
    if (!numbers) {  // the conversions in pairs have NaNs of their own
#pragma unroll
      for (int i = 0; i < each; ++i) {
        if (results[i] != results[i]) {
          set_element<Out>(all, i, canonical_nan<Out>());
        }
      }
    }
    return all;
  }

 private:
  /// y may be anything, not only a logarithm of a probability.
  __device__ static T exponential_of_any(T y) {
    constexpr T overflows = sizeof(T) == 4 ? T(88.72284) : T(709.79);
    return y < overflows ? exponential<precision::exact>(y) : y * infinity<T>;
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
