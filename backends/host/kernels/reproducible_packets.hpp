// SPDX-License-Identifier: Apache-2.0
/// \file
/// Packets of core/reproducible.hpp by vectors: shuffles that transpose and additions make eight
/// vectors of terms one of packets' sums.
#pragma once

#include <backends/host/kernels/memory_types.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// Lanes of a, then of b, whose number lacks the bit `distance`, and those that have it; in an
/// order in which both agree and the rest of a packet's lanes stays together.
template <int lanes, int distance, class Native>
SOFTFOLD_INLINE void split_lanes(const Native& a, const Native& b, Native& low, Native& high) {
  constexpr int d = distance;
  if constexpr (lanes == 16 && d == 4) {
    low = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    high =
        __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  } else if constexpr (lanes == 16 && d == 2) {
    low = __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
    high =
        __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  } else if constexpr (lanes == 16) {
    low = __builtin_shufflevector(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30);
    high = __builtin_shufflevector(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
  } else if constexpr (lanes == 8 && d == 4) {
    low = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
    high = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  } else if constexpr (lanes == 8 && d == 2 && sizeof(Native) == 32) {  // within 16 bytes
    low = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
    high = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  } else if constexpr (lanes == 8 && d == 2) {
    low = __builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13);
    high = __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15);
  } else if constexpr (lanes == 8 && sizeof(Native) == 32) {
    low = __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14);
    high = __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
  } else if constexpr (lanes == 8) {
    low = __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14);
    high = __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
  } else if constexpr (lanes == 4 && d == 2) {
    low = __builtin_shufflevector(a, b, 0, 1, 4, 5);
    high = __builtin_shufflevector(a, b, 2, 3, 6, 7);
  } else if constexpr (lanes == 4 && sizeof(Native) == 16) {
    low = __builtin_shufflevector(a, b, 0, 2, 4, 6);
    high = __builtin_shufflevector(a, b, 1, 3, 5, 7);
  } else if constexpr (lanes == 4) {
    low = __builtin_shufflevector(a, b, 0, 4, 2, 6);
    high = __builtin_shufflevector(a, b, 1, 5, 3, 7);
  } else {
    static_assert(lanes == 2 && d == 1);
    low = __builtin_shufflevector(a, b, 0, 2);
    high = __builtin_shufflevector(a, b, 1, 3);
  }
}

/// Vectors of a block, or of as many columns of f64.
inline constexpr int block_vectors = 8;

/// What is `distance` apart comes together: half as many vectors are left.
template <int distance, int count, class V>
SOFTFOLD_INLINE void fold_distance(V (&v)[block_vectors]) {
  if constexpr (distance >= V::lanes) {  // in other vectors of the packet
    constexpr int apart = distance / V::lanes;
#pragma GCC unroll 8
    for (int i = 0, to = 0; i < count; i += 2 * apart) {
#pragma GCC unroll 8
      for (int j = i; j < i + apart; ++j, ++to) {
        v[to] = v[j] + v[j + apart];
      }
    }
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < count / 2; ++i) {
      V low, high;
      split_lanes<V::lanes, distance>(v[2 * i].v, v[2 * i + 1].v, low.v, high.v);
      v[i] = low + high;
    }
  }
}

/// The sums of a block's packets, in some order.
template <class V>
SOFTFOLD_INLINE V sums_of_packets(V (&v)[block_vectors]) {
  fold_distance<4, 8>(v);
  fold_distance<2, 4>(v);
  fold_distance<1, 2>(v);
  return v[0];
}

/// Of vectors that are `apart` the lanes that lack the bit `distance`, and the others.
template <int distance, unsigned apart, class V, unsigned count>
SOFTFOLD_INLINE void split_pairs(V (&sums)[count]) {
#pragma GCC unroll 8
  for (unsigned i = 0; i < count; ++i) {
    if ((i & apart) == 0) {
      V low, high;
      split_lanes<V::lanes, distance>(sums[i].v, sums[i + apart].v, low.v, high.v);
      sums[i] = low;
      sums[i + apart] = high;
    }
  }
}

/// sums_of_packets() of blocks that hold several rows of `count` packets each become the sums of
/// one packet of every row, a lane for each row, in their order: which bit of a lane's number is of
/// the row's and which of the packet's is what the tree above makes of them.
template <class V, unsigned count>
SOFTFOLD_INLINE void bring_packets_together(V (&sums)[count]) {
  if constexpr (count == 2) {
    split_pairs<4, 1>(sums);
  } else if constexpr (count == 4 && V::lanes == 16) {
    split_pairs<4, 1>(sums);
    split_pairs<4, 2>(sums);
  } else if constexpr (count == 4) {
    split_pairs<4, 2>(sums);
    split_pairs<1, 1>(sums);
  } else {
    static_assert(count == 8 && V::lanes == 16);
    split_pairs<4, 2>(sums);
    split_pairs<4, 4>(sums);
    split_pairs<1, 1>(sums);
  }
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
