// SPDX-License-Identifier: Apache-2.0
/// \file
/// Sorting networks in registers: within a lane, and over the lanes that share a row. All sort from
/// large to small, by numbers without ties where their order must be the same every time.
#pragma once

#include <gpu/contract.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The larger one first.
template <class Entry>
__device__ inline void exchange(Entry& a, Entry& b) {
  const Entry first = a;
  const Entry second = b;
  a = first < second ? second : first;
  b = first < second ? first : second;
}

/// Batcher's odd-even merge of both halves of n entries from `first` on, each `step`th of them.
template <int first, int n, int step, int size, class Entry>
__device__ inline void merge_halves(Entry (&entries)[size]) {
  if constexpr (2 * step < n) {
    merge_halves<first, n, 2 * step>(entries);
    merge_halves<first + step, n, 2 * step>(entries);
#pragma unroll
    for (int i = first + step; i + step < first + n; i += 2 * step) {
      exchange(entries[i], entries[i + step]);
    }
  } else {
    exchange(entries[first], entries[first + step]);
  }
}

/// Sorts n entries from `first` on, a power of two, from large to small. O(n log^2 n) compares.
template <int first, int n, int size, class Entry>
__device__ inline void sort_within_lane(Entry (&entries)[size]) {
  if constexpr (n > 1) {
    sort_within_lane<first, n / 2>(entries);
    sort_within_lane<first + n / 2, n / 2>(entries);
    merge_halves<first, n, 1>(entries);
  }
}

/// Sorts entries that first rise, then fall.
template <int n, class Entry>
__device__ inline void sort_bitonic(Entry (&entries)[n]) {
#pragma unroll
  for (int step = n / 2; step > 0; step /= 2) {
#pragma unroll
    for (int i = 0; i < n / 2; ++i) {
      const int a = (i & ~(step - 1)) * 2 + (i & (step - 1));
      exchange(entries[a], entries[a + step]);
    }
  }
}

struct nothing_told {
  template <class Entry>
  __device__ void operator()(Entry) const {}
};

/// The best of both, each from large to small, to `best`. tell(entry): of what is left out.
template <int most, class Entry, class Tell = nothing_told>
__device__ inline void merge_best(Entry (&best)[most], const Entry (&others)[most],
                                  const Tell& tell = {}) {
#pragma unroll
  for (int i = 0; i < most; ++i) {
    const Entry other = others[most - 1 - i];
    tell(best[i] < other ? best[i] : other);
    best[i] = best[i] < other ? other : best[i];
  }
  sort_bitonic(best);
}

/// The best of a lane's n entries, entry(0) to entry(n - 1), from large to small; absent ones last.
template <int n, int most, class Entry, class Get>
__device__ inline void best_of_lane(Entry (&best)[most], const Get& entry) {
  const auto get = [&](Entry(&some)[most], int first) {
#pragma unroll
    for (int i = 0; i < most; ++i) {
      some[i] = first + i < n ? entry(first + i) : Entry{0};
    }
    sort_within_lane<0, most>(some);
  };
  get(best, 0);
#pragma unroll
  for (int first = most; first < n; first += most) {
    Entry others[most];
    get(others, first);
    merge_best(best, others);
  }
}

/// The best of `row_lanes` lanes' entries, each from large to small: to each of them, which tells
/// what it leaves out.
template <int most, class Entry, class Tell = nothing_told>
__device__ inline void best_over_lanes(Entry (&best)[most], int row_lanes, const Tell& tell = {}) {
#pragma unroll 1
  for (int mask = 1; mask < row_lanes; mask *= 2) {
    Entry others[most];
#pragma unroll
    for (int i = 0; i < most; ++i) {
      others[i] = shuffle_xor(best[i], mask);
    }
    merge_best(best, others, tell);
  }
}

/// Sorts n entries of each of `row_lanes` lanes from large to small: lane after lane, in each the
/// order of the array. Bitonic; n and row_lanes are powers of two.
template <int n, class Entry>
__device__ inline void sort_over_lanes(Entry (&entries)[n], int lane, int row_lanes) {
  const auto exchange = [&](int a, int b, bool descending) {
    const Entry first = entries[a];
    const Entry second = entries[b];
    const bool swaps = (first < second) == descending;
    entries[a] = swaps ? second : first;
    entries[b] = swaps ? first : second;
  };
  // Each lane by itself, every other one in ascending order.
#pragma unroll
  for (int size = 2; size <= n; size *= 2) {
#pragma unroll
    for (int step = size / 2; step > 0; step /= 2) {
#pragma unroll
      for (int i = 0; i < n / 2; ++i) {
        const int a = (i & ~(step - 1)) * 2 + (i & (step - 1));
        exchange(a, a + step, size < n ? (a & size) == 0 : (lane & 1) == 0 || row_lanes == 1);
      }
    }
  }
  for (int size = 2; size <= row_lanes; size *= 2) {
    const bool descending = (lane & size) == 0 || size == row_lanes;
    for (int mask = size / 2; mask > 0; mask /= 2) {
      const bool takes_larger = ((lane & mask) == 0) == descending;
#pragma unroll
      for (int i = 0; i < n; ++i) {
        const Entry other = shuffle_xor(entries[i], mask);
        entries[i] = (other > entries[i]) == takes_larger ? other : entries[i];
      }
    }
#pragma unroll
    for (int step = n / 2; step > 0; step /= 2) {
#pragma unroll
      for (int i = 0; i < n / 2; ++i) {
        const int a = (i & ~(step - 1)) * 2 + (i & (step - 1));
        exchange(a, a + step, descending);
      }
    }
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
