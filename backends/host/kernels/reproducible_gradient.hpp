// SPDX-License-Identifier: Apache-2.0
/// \file
/// The gradients as core/reproducible.hpp has them: sums of tiles in f64, and the map.
#pragma once

#include <backends/host/kernels/gradient.hpp>
#include <backends/host/kernels/reproducible.hpp>

#include <algorithm>
#include <bit>
#include <limits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// exp(y) by its term. How the power is divided in two does not show, as long as the first product
/// is a normal number.
template <class A>
SOFTFOLD_INLINE vec<A> exponential_by_term(vec<A> y) {
  using V = vec<A>;
  constexpr A magic = definition::format<A>::magic;
  [[maybe_unused]] constexpr A biased = magic + A(definition::bias_of<A>);
  // The order of the operands keeps a NaN.
  y = min(V(definition::highest_exponent<A>), max(V(definition::lowest_exponent<A>), y));
  const V n = fused(y, V(definition::format<A>::log2_e), V(magic)) - V(magic);
  V rest;
  if constexpr (sizeof(A) == 4) {
    rest = fused(n, V(-definition::format<A>::ln2), y);
  } else {
    rest = fused(n, V(-core::exponential<A>::ln2_high), y);
    rest = fused(n, V(-core::exponential<A>::ln2_low), rest);
  }
  const V p = exponential_of_rest(rest);
  if constexpr (requires { times_power(p, n); }) {
    return times_power(p, n);
  } else {
    const V half = fused(n, V(static_cast<A>(0.5)), V(biased));
    const V other = (n - (half - V(biased))) + V(biased);
    return p * power_of_low_bits(half) * power_of_low_bits(other);
  }
}

template <class T, class Out, bool log>
struct reproducible_gradient {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  using W = vec<double>;
  static constexpr int step = block_vectors * W::lanes;
  static constexpr int packets = step / definition::packet_columns;  ///< of a block
  static constexpr int blocks = definition::tile_columns / step;
  static constexpr auto room = static_cast<unsigned>(step + V::lanes);
  static_assert(packets == W::lanes);

  /// The packets' sums of a block's elements in the arithmetic's type.
  static SOFTFOLD_INLINE W sums_of_block(const A* y, const A* dy) {
    W v[block_vectors];
#pragma GCC unroll 8
    for (int k = 0; k < block_vectors; ++k) {
      v[k] = W::load(dy + k * W::lanes);
      if constexpr (!log) {
        v[k] = W::load(y + k * W::lanes) * v[k];
      }
    }
    return sums_of_packets(v);
  }

  /// n <= size elements, 0 after them; at most a vector behind `size` is overwritten.
  static SOFTFOLD_INLINE void widen(const T* x, std::int64_t n, A* to, int size) {
    for (int i = 0; i < size; i += V::lanes) {
      const V v = n - i >= V::lanes ? V::load(x + i)
                  : n > i           ? V::load(x + i, static_cast<int>(n - i), V(A{0}))
                                    : V(A{0});
      v.store(to + i);
    }
  }

  static SOFTFOLD_INLINE void add_halves(W* sums, int count) {
#pragma GCC unroll 8
    for (int half = count / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) {
        sums[i] = sums[i] + sums[i + half];
      }
    }
  }

  /// Blocks that a tile lacks would add 0.
  static SOFTFOLD_INLINE double sum_of_tile(const T* y, const T* dy, std::int64_t n) {
    W sums[static_cast<unsigned>(blocks)];
    const int count = static_cast<int>(std::min<std::int64_t>((n + step - 1) / step, blocks));
    for (int b = 0; b < count; ++b) {
      const std::int64_t left = n - std::int64_t{b} * step;
      const T* const from_y = y + b * step;
      const T* const from_dy = dy + b * step;
      if (left >= step) [[likely]] {
        if constexpr (sizeof(T) == sizeof(A)) {
          prefetch_ahead(from_y);
          prefetch_ahead(from_dy);
          sums[b] = sums_of_block(from_y, from_dy);
          continue;
        }
        if constexpr (requires { ordered_sums<!log>(from_y, from_dy, sums[b]); }) {
          if (ordered_sums<!log>(from_y, from_dy, sums[b])) [[likely]] {
            continue;
          }
        }
      }
      alignas(64) A of_y[room];
      alignas(64) A of_dy[room];
      if constexpr (!log) {
        widen(from_y, left, of_y, step);
      }
      widen(from_dy, left, of_dy, step);
      sums[b] = sums_of_block(of_y, of_dy);
    }
    if (count == blocks) [[likely]] {
      add_halves(sums, blocks);
    } else {
      const auto halves = static_cast<int>(std::bit_ceil(static_cast<unsigned>(count)));
      for (int b = count; b < halves; ++b) {
        sums[b] = W(0.0);
      }
      add_halves(sums, halves);
    }
    alignas(64) double of_packets[static_cast<unsigned>(packets)];
    sums[0].store(of_packets);
    return sum_of<packets>(of_packets, 0);
  }

  /// Where sums_of_packets() leaves a packet's sum.
  static constexpr unsigned lane_of(int packet) {
    const int half = W::lanes / 2;
    return static_cast<unsigned>(packet < half ? 2 * packet : 2 * (packet - half) + 1);
  }
  /// Of `count` packets from number `first` on, by halves.
  template <int count, int distance = 1>
  static SOFTFOLD_INLINE double sum_of(const double* of_packets, int first) {
    if constexpr (count == 1) {
      return of_packets[lane_of(first)];
    } else {
      return sum_of<count / 2, 2 * distance>(of_packets, first) +
             sum_of<count / 2, 2 * distance>(of_packets, first + distance);
    }
  }

  static void tiles(const void* y, const void* dy, std::int64_t n, double* sums) {
    const T* const of_y = static_cast<const T*>(y);
    const T* const of_dy = static_cast<const T*>(dy);
    for (std::int64_t i = 0; i < n; i += definition::tile_columns) {
      *sums++ = sum_of_tile(of_y + i, of_dy + i, n - i);
    }
  }

  /// One row after the other, of at most a tile; several at once where a block has room for them.
  static void short_rows(const gradient_rows* rows) {
    constexpr int packet = definition::packet_columns;
    if (rows->cols <= packet) {
      narrow_rows<packet>(*rows);
    } else if (rows->cols <= 2 * packet && packets > 2) {
      narrow_rows<2 * packet>(*rows);
    } else {
      for (std::int64_t r = 0; r < rows->rows; ++r) {
        const two_rows<T> from = row_of(*rows, r);
        write_row(*rows, r, from, sum_of_tile(from.a, from.b, rows->cols));
      }
    }
  }

  static void map(const void* y, const void* dy, std::int64_t n,
                  const reproducible_gradient_row* row, destination dx) {
    map_row({static_cast<const T*>(y), static_cast<const T*>(dy)}, n,
            {static_cast<A>(row->scale), static_cast<A>(row->high), static_cast<A>(row->low)},
            static_cast<Out*>(dx.data), dx.stream);
  }

 private:
  static SOFTFOLD_INLINE two_rows<T> row_of(const gradient_rows& rows, std::int64_t r) {
    return {static_cast<const T*>(rows.y) + r * rows.y_stride,
            static_cast<const T*>(rows.dy) + r * rows.dy_stride};
  }

  /// Rows of `size` columns or less.
  template <int size>
  static SOFTFOLD_INLINE void narrow_rows(const gradient_rows& rows) {
    constexpr int together = step / size;
    alignas(64) A of_y[room] = {};
    alignas(64) A of_dy[room] = {};
    for (std::int64_t first = 0; first < rows.rows; first += together) {
      const auto count = static_cast<int>(std::min<std::int64_t>(rows.rows - first, together));
      for (int i = 0; i < count; ++i) {
        const two_rows<T> from = row_of(rows, first + i);
        if constexpr (!log) {
          widen(from.a, rows.cols, of_y + i * size, size);
        }
        widen(from.b, rows.cols, of_dy + i * size, size);
      }
      alignas(64) double of_packets[static_cast<unsigned>(packets)];
      sums_of_block(of_y, of_dy).store(of_packets);
      constexpr int own = size / definition::packet_columns;
      for (int i = 0; i < count; ++i) {
        write_row(rows, first + i, row_of(rows, first + i), sum_of<own>(of_packets, i * own));
      }
    }
  }

  static SOFTFOLD_INLINE void write_row(const gradient_rows& rows, std::int64_t r,
                                        const two_rows<T>& from, double total) {
    core::compensated_sum sum;
    sum.add(total);
    map_row(from, rows.cols, definition::row_gradient<A>::of(static_cast<A>(rows.scale), sum),
            static_cast<Out*>(rows.dx) + r * rows.dx_stride, false);
  }

  static SOFTFOLD_INLINE void map_row(const two_rows<T>& from, std::int64_t n,
                                      const definition::row_gradient<A>& row, Out* dx,
                                      bool stream) {
    const V high(log ? -row.high : row.high);
    const V low(log ? -row.low : row.low);
    const V scale(row.scale);
    if constexpr (!log) {
      if (row.scale == 1 && softmax_gradient<T>::stays_finite(row.high)) {  // as in map_row there
        map_source(from, n, dx, stream,
                   [&](const typename two_rows<T>::pair& v) { return v.a * ((v.b - high) - low); });
        return;
      }
    }
    const V nan(static_cast<A>(__builtin_nanf("")));
    [[maybe_unused]] const V greatest(std::numeric_limits<A>::max());
    map_source(from, n, dx, stream, [&](const typename two_rows<T>::pair& v) {
      V r;
      if constexpr (log) {
        const V e = exponential_by_term(v.a);
        r = fused(min(greatest, e), low, fused(e, high, v.b));
      } else {
        r = v.a * ((v.b - high) - low);
      }
      r = scale * r;
      return V::select(unordered(r, r), nan, r);
    });
  }
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
