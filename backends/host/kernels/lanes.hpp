// SPDX-License-Identifier: Apache-2.0
/// \file
/// Lanes of vectors change places, in any instruction set: the compiler finds the instructions.
#pragma once

#include <backends/host/kernels/memory_types.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// v's lanes, each from the lane whose number differs in the bits of `flip`.
template <int lanes, int flip, class Native>
SOFTFOLD_INLINE void exchange_lanes(const Native& v, Native& r) {
  constexpr int f = flip;
  if constexpr (lanes == 16) {
    r = __builtin_shufflevector(v, v, 0 ^ f, 1 ^ f, 2 ^ f, 3 ^ f, 4 ^ f, 5 ^ f, 6 ^ f, 7 ^ f, 8 ^ f,
                                9 ^ f, 10 ^ f, 11 ^ f, 12 ^ f, 13 ^ f, 14 ^ f, 15 ^ f);
  } else if constexpr (lanes == 8) {
    r = __builtin_shufflevector(v, v, 0 ^ f, 1 ^ f, 2 ^ f, 3 ^ f, 4 ^ f, 5 ^ f, 6 ^ f, 7 ^ f);
  } else if constexpr (lanes == 4) {
    r = __builtin_shufflevector(v, v, 0 ^ f, 1 ^ f, 2 ^ f, 3 ^ f);
  } else {
    static_assert(lanes == 2);
    r = __builtin_shufflevector(v, v, 0 ^ f, 1 ^ f);
  }
}

/// The last `by` lanes of a, then v's without its last: what follows a, moved up.
template <int lanes, int by, class Native>
SOFTFOLD_INLINE void follow_lanes(const Native& a, const Native& v, Native& r) {
  constexpr auto from = [](int i) { return i < by ? lanes - by + i : lanes + i - by; };
  if constexpr (lanes == 16) {
    r = __builtin_shufflevector(a, v, from(0), from(1), from(2), from(3), from(4), from(5), from(6),
                                from(7), from(8), from(9), from(10), from(11), from(12), from(13),
                                from(14), from(15));
  } else if constexpr (lanes == 8) {
    r = __builtin_shufflevector(a, v, from(0), from(1), from(2), from(3), from(4), from(5), from(6),
                                from(7));
  } else if constexpr (lanes == 4) {
    r = __builtin_shufflevector(a, v, from(0), from(1), from(2), from(3));
  } else {
    static_assert(lanes == 2);
    r = __builtin_shufflevector(a, v, from(0), from(1));
  }
}

/// Lanes of a whose number lacks the bit `top`, lanes of b where it has it.
template <int lanes, int top, class Native>
SOFTFOLD_INLINE void blend_lanes(const Native& a, const Native& b, Native& r) {
  constexpr auto from = [](int i) { return (i & top) != 0 ? lanes + i : i; };
  if constexpr (lanes == 16) {
    r = __builtin_shufflevector(a, b, from(0), from(1), from(2), from(3), from(4), from(5), from(6),
                                from(7), from(8), from(9), from(10), from(11), from(12), from(13),
                                from(14), from(15));
  } else if constexpr (lanes == 8) {
    r = __builtin_shufflevector(a, b, from(0), from(1), from(2), from(3), from(4), from(5), from(6),
                                from(7));
  } else if constexpr (lanes == 4) {
    r = __builtin_shufflevector(a, b, from(0), from(1), from(2), from(3));
  } else {
    static_assert(lanes == 2);
    r = __builtin_shufflevector(a, b, from(0), from(1));
  }
}

/// The lanes of a and b in turn.
template <int lanes, class Native>
SOFTFOLD_INLINE void interleave_lanes(const Native& a, const Native& b, Native& low, Native& high) {
  if constexpr (lanes == 16) {
    low = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    high =
        __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  } else if constexpr (lanes == 8) {
    low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    high = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  } else if constexpr (lanes == 4) {
    low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  } else {
    static_assert(lanes == 2);
    low = __builtin_shufflevector(a, b, 0, 2);
    high = __builtin_shufflevector(a, b, 1, 3);
  }
}

/// The elements of `count` vectors, numbered through, change places: those whose numbers agree
/// in all but the bits of the lane, in which they differ from each other, come to one vector.
/// lanes vectors: transposes. 4 vectors of lanes x 4 elements: vector i gets element i of each.
template <unsigned count, class V>
SOFTFOLD_INLINE void transpose(V (&tile)[count]) {
  constexpr int vectors = static_cast<int>(count);
#pragma GCC unroll 4
  for (int width = 1; width < V::lanes; width *= 2) {
    V shuffled[count];
#pragma GCC unroll 16
    for (int r = 0; r < vectors / 2; ++r) {
      interleave_lanes<V::lanes>(tile[r].v, tile[r + vectors / 2].v, shuffled[2 * r].v,
                                 shuffled[2 * r + 1].v);
    }
#pragma GCC unroll 16
    for (int r = 0; r < vectors; ++r) {
      tile[r] = shuffled[r];
    }
  }
}

/// Lane i of the result is rows[i]'s lanes, brought together in the same order for every row. The
/// rows are overwritten.
template <unsigned count, class V, class F>
SOFTFOLD_INLINE V across(V (&rows)[count], const F& f) {
  static_assert(static_cast<int>(count) == V::lanes);
#pragma GCC unroll 4
  for (int half = V::lanes / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < half; ++i) {
      V low, high;
      interleave_lanes<V::lanes>(rows[i].v, rows[i + half].v, low.v, high.v);
      rows[i] = f(low, high);
    }
  }
  return rows[0];
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
