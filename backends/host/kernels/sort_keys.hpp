// SPDX-License-Identifier: Apache-2.0
/// \file
/// Sorting networks in registers: a block of 64-bit keys, and the lanes of one vector.
///
/// Key e of a block stands in lane e / vectors of vector e % vectors, so that most steps of the
/// bitonic network compare whole vectors and only the long distances shuffle lanes.
#pragma once

#include <backends/host/kernels/lanes.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// One step of a network on the lanes of V: the larger of lanes i and i ^ flip moves to the one
/// without the bit `top`.
template <int flip, int top, class V>
SOFTFOLD_INLINE V compare_lanes(V x) {
  V other;
  exchange_lanes<V::lanes, flip>(x.v, other.v);
  const V larger = max(x, other);
  const V smaller = min(x, other);
  blend_lanes<V::lanes, top>(larger.v, smaller.v, x.v);
  return x;
}

/// The lanes of x, without NaN, from large to small.
template <class V>
SOFTFOLD_INLINE V sort_lanes(V x) {
  constexpr int n = V::lanes;
  x = compare_lanes<1, 1>(x);
  if constexpr (n >= 4) {
    x = compare_lanes<1, 1>(compare_lanes<3, 2>(x));
  }
  if constexpr (n >= 8) {
    x = compare_lanes<1, 1>(compare_lanes<2, 2>(compare_lanes<7, 4>(x)));
  }
  if constexpr (n >= 16) {
    x = compare_lanes<1, 1>(compare_lanes<2, 2>(compare_lanes<4, 4>(compare_lanes<15, 8>(x))));
  }
  return x;
}

/// `count` unsigned keys in registers, in vectors of type `Native`.
template <class Native, int count>
struct key_block {
  static constexpr int lanes = static_cast<int>(sizeof(Native) / sizeof(std::uint64_t));
  static constexpr int vectors = count / lanes;
  Native v[unsigned{vectors}];

  SOFTFOLD_INLINE explicit key_block(const std::uint64_t* keys) {
    __builtin_memcpy(v, keys, sizeof v);
  }

  /// Sorts from large to small, in the order of e.
  SOFTFOLD_INLINE void sort() {
#pragma GCC unroll 8
    for (int size = 2; size <= vectors; size *= 2) {
#pragma GCC unroll 16
      for (int r = 0; r < vectors; ++r) {
        if (r < (r ^ (size - 1))) {
          order(v[r], v[r ^ (size - 1)]);
        }
      }
      distances_below(size / 2);
    }
    merge_lanes<2>();
  }

  /// Of this and another sorted block, the larger half, sorted.
  SOFTFOLD_INLINE void keep_larger(const key_block& other) {
#pragma GCC unroll 16
    for (int r = 0; r < vectors; ++r) {
      Native reversed;
      exchange_lanes<lanes, lanes - 1>(other.v[vectors - 1 - r], reversed);
      v[r] = v[r] > reversed ? v[r] : reversed;
    }
    lane_distances<lanes / 2>();
    distances_below(vectors);
  }

  /// In the order of e.
  SOFTFOLD_INLINE void store(std::uint64_t* keys) const {
    Native from[unsigned{vectors}], to[unsigned{vectors}];
    __builtin_memcpy(from, v, sizeof v);
#pragma GCC unroll 8
    for (int width = 1; width < vectors; width *= 2) {
#pragma GCC unroll 16
      for (int r = 0; r < vectors / 2; ++r) {
        interleave_lanes<lanes>(from[r], from[r + vectors / 2], to[2 * r], to[2 * r + 1]);
      }
      __builtin_memcpy(from, to, sizeof from);
    }
    __builtin_memcpy(keys, from, sizeof from);
  }

 private:
  static SOFTFOLD_INLINE void order(Native& a, Native& b) {
    const Native larger = a > b ? a : b;
    b = a > b ? b : a;
    a = larger;
  }

  /// The steps of distances end / 2, ..., 1 among vectors.
  SOFTFOLD_INLINE void distances_below(int end) {
#pragma GCC unroll 8
    for (int distance = end / 2; distance > 0; distance /= 2) {
#pragma GCC unroll 16
      for (int r = 0; r < vectors; ++r) {
        if (r < (r ^ distance)) {
          order(v[r], v[r ^ distance]);
        }
      }
    }
  }

  /// The steps of distances `distance`, ..., 1 among lanes.
  template <int distance>
  SOFTFOLD_INLINE void lane_distances() {
    if constexpr (distance > 0) {
#pragma GCC unroll 16
      for (int r = 0; r < vectors; ++r) {
        Native other;
        exchange_lanes<lanes, distance>(v[r], other);
        const Native larger = v[r] > other ? v[r] : other;
        const Native smaller = v[r] > other ? other : v[r];
        blend_lanes<lanes, distance>(larger, smaller, v[r]);
      }
      lane_distances<distance / 2>();
    }
  }

  /// Merges pairs of sorted runs that `size` lanes hold together, then pairs of those.
  template <int size>
  SOFTFOLD_INLINE void merge_lanes() {
    if constexpr (size <= lanes) {
#pragma GCC unroll 16
      for (int r = 0; r < vectors / 2; ++r) {
        Native& a = v[r];
        Native& b = v[vectors - 1 - r];
        Native other;
        exchange_lanes<lanes, size - 1>(b, other);
        const Native larger = a > other ? a : other;
        const Native smaller = a > other ? other : a;
        Native crossed;
        exchange_lanes<lanes, size - 1>(larger, crossed);
        Native crossed_smaller;
        exchange_lanes<lanes, size - 1>(smaller, crossed_smaller);
        blend_lanes<lanes, size / 2>(larger, smaller, a);
        blend_lanes<lanes, size / 2>(crossed, crossed_smaller, b);
      }
      lane_distances<size / 4>();
      distances_below(vectors);
      merge_lanes<2 * size>();
    }
  }
};

/// Sorts the largest `count` of n keys into keys[0, count); keys has room for n rounded up to a
/// multiple of count, and what it lacks is 0.
template <class Native, int count>
SOFTFOLD_INLINE void keep_largest(std::uint64_t* keys, std::int64_t n) {
  for (std::int64_t i = n; i % count != 0 || i == 0; ++i) {
    keys[i] = 0;
  }
  key_block<Native, count> best(keys);
  best.sort();
  for (std::int64_t i = count; i < n; i += count) {
    key_block<Native, count> more(keys + i);
    more.sort();
    best.keep_larger(more);
  }
  best.store(keys);
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
