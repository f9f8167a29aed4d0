// SPDX-License-Identifier: Apache-2.0
/// \file
/// The gradients as core/reproducible.hpp has them: sums of tiles in f64, and the map.
#pragma once

#include <backends/host/kernels/reproducible.hpp>

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
  constexpr A biased = magic + A(definition::bias_of<A>);
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
  const V half = fused(n, V(static_cast<A>(0.5)), V(biased));
  const V other = (n - (half - V(biased))) + V(biased);
  return exponential_of_rest(rest) * power_of_low_bits(half) * power_of_low_bits(other);
}

template <class T, class Out, bool log>
struct reproducible_gradient {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  using W = vec<double>;
  static constexpr int step = block_vectors * W::lanes;
  static constexpr int packets = step / definition::packet_columns;  ///< of a block
  static constexpr int blocks = definition::tile_columns / step;

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

  /// n <= step elements, 0 after them.
  static SOFTFOLD_INLINE void widen(const T* x, std::int64_t n, A* to) {
    for (int i = 0; i < step; i += V::lanes) {
      const V v = n - i >= V::lanes ? V::load(x + i)
                  : n > i           ? V::load(x + i, static_cast<int>(n - i), V(A{0}))
                                    : V(A{0});
      if (step - i >= V::lanes) {
        v.store(to + i);
      } else {
        v.store(to + i, step - i);
      }
    }
  }

  static SOFTFOLD_INLINE double sum_of_tile(const T* y, const T* dy, std::int64_t n) {
    W sums[static_cast<unsigned>(blocks)];
    for (int b = 0; b < blocks; ++b) {
      const std::int64_t left = n - std::int64_t{b} * step;
      if (left <= 0) {
        sums[b] = W(0.0);
        continue;
      }
      const T* const from_y = y + b * step;
      const T* const from_dy = dy + b * step;
      if constexpr (sizeof(T) == sizeof(A)) {
        if (left >= step) [[likely]] {
          prefetch_ahead(from_y);
          prefetch_ahead(from_dy);
          sums[b] = sums_of_block(from_y, from_dy);
          continue;
        }
      }
      alignas(64) A of_y[static_cast<unsigned>(step)];
      alignas(64) A of_dy[static_cast<unsigned>(step)];
      if constexpr (!log) {
        widen(from_y, left, of_y);
      }
      widen(from_dy, left, of_dy);
      sums[b] = sums_of_block(of_y, of_dy);
    }
#pragma GCC unroll 8
    for (int half = blocks / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) {
        sums[i] = sums[i] + sums[i + half];
      }
    }
    return across_lanes(sums[0]);
  }

  /// Of the packets in the lanes that sums_of_packets() leaves them in.
  static SOFTFOLD_INLINE double across_lanes(W sums) {
    alignas(64) double s[static_cast<unsigned>(W::lanes)];
    sums.store(s);
    if constexpr (W::lanes == 8) {  // packets 0, 4, 1, 5, 2, 6, 3, 7
      return ((s[0] + s[1]) + (s[4] + s[5])) + ((s[2] + s[3]) + (s[6] + s[7]));
    } else if constexpr (W::lanes == 4) {  // 0, 2, 1, 3
      return (s[0] + s[1]) + (s[2] + s[3]);
    } else {
      return s[0] + s[1];
    }
  }

  static void tiles(const void* y, const void* dy, std::int64_t n, double* sums) {
    const T* const of_y = static_cast<const T*>(y);
    const T* const of_dy = static_cast<const T*>(dy);
    for (std::int64_t i = 0; i < n; i += definition::tile_columns) {
      *sums++ = sum_of_tile(of_y + i, of_dy + i, n - i);
    }
  }

  static void map(const void* y, const void* dy, std::int64_t n,
                  const reproducible_gradient_row* row, destination dx) {
    const V scale(static_cast<A>(row->scale));
    const V high(static_cast<A>(row->high));
    const V low(static_cast<A>(row->low));
    const V nan(static_cast<A>(__builtin_nanf("")));
    const V greatest(std::numeric_limits<A>::max());
    const V none(A{0});
    const two_rows<T> from{static_cast<const T*>(y), static_cast<const T*>(dy)};
    map_source(from, n, static_cast<Out*>(dx.data), dx.stream,
               [&](const typename two_rows<T>::pair& v) {
                 V r;
                 if constexpr (log) {
                   const V e = exponential_by_term(v.a);
                   r = fused(none - e, high, v.b);
                   r = fused(none - min(greatest, e), low, r);
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
