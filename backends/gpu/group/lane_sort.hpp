// SPDX-License-Identifier: Apache-2.0
/// \file
/// Sorting networks in registers: within a lane, and over the lanes that share a row. All sort from
/// large to small, by numbers without ties where their order must be the same every time.
#pragma once

#include <gpu/contract.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The larger one first. Every third of `number` finds the smaller one by other units than those
/// that compare, which have the most to do.
template <class Entry>
__device__ inline void exchange(Entry& a, Entry& b, int number) {
  const Entry first = a;
  const Entry second = b;
  a = first < second ? second : first;
  if constexpr (sizeof(Entry) == 4) {
    if (number % 3 == 0) {
      b = other_of(first, second, a);
      return;
    }
  }
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
      exchange(entries[i], entries[i + step], (i - first) / step / 2);
    }
  } else {
    exchange(entries[first], entries[first + step], first);
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
      exchange(entries[a], entries[a + step], i);
    }
  }
}

struct nothing_told {
  template <class Entry>
  __device__ void operator()(Entry) const {}
};

/// Calls use(own, other) with each of a lane's entries and that of another lane which is as far
/// from the end as the own one is from the beginning. By pairs from both ends, so that the others
/// take no registers.
template <int n, class Entry, class Use>
__device__ inline void with_mirrored(Entry (&entries)[n], int mask, const Use& use) {
  if constexpr (n == 1) {
    use(entries[0], shuffle_xor(entries[0], mask));
  }
#pragma unroll
  for (int i = 0; i < n / 2; ++i) {
    const Entry first = shuffle_xor(entries[i], mask);
    const Entry last = shuffle_xor(entries[n - 1 - i], mask);
    use(entries[i], last);
    use(entries[n - 1 - i], first);
  }
}

/// A list over lanes: n entries of each, lane after lane. Sorts one that is bitonic.
template <int n, class Entry>
__device__ inline void sort_bitonic_over_lanes(Entry (&entries)[n], int lane, int list_lanes) {
#pragma unroll 1
  for (int mask = list_lanes / 2; mask > 0; mask /= 2) {
    const bool takes_larger = (lane & mask) == 0;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const Entry own = entries[i];
      const Entry other = shuffle_xor(own, mask);
      entries[i] = takes_larger == (own < other) ? other : own;
    }
  }
  sort_bitonic(entries);
}

/// Sorts a list over lanes: n and list_lanes are powers of two.
template <int n, class Entry>
__device__ inline void sort_over_lanes(Entry (&entries)[n], int lane, int list_lanes) {
  sort_within_lane<0, n>(entries);
#pragma unroll 1
  for (int lanes = 2; lanes <= list_lanes; lanes *= 2) {
    const bool takes_larger = (lane & (lanes / 2)) == 0;
    with_mirrored(entries, lanes - 1, [&](Entry& own, Entry other) {
      own = takes_larger == (own < other) ? other : own;
    });
    sort_bitonic_over_lanes(entries, lane, lanes / 2);
  }
}

/// The best of both, lists over lanes from large to small, to `best`. tell(entry): of what is left
/// out.
template <int n, class Entry, class Tell = nothing_told>
__device__ inline void merge_best(Entry (&best)[n], const Entry (&others)[n], int lane,
                                  int list_lanes, const Tell& tell = {}) {
#pragma unroll
  for (int i = 0; i < n; ++i) {
    Entry other = others[n - 1 - i];
    if (list_lanes > 1) {
      other = shuffle_xor(other, list_lanes - 1);
    }
    tell(best[i] < other ? best[i] : other);
    best[i] = best[i] < other ? other : best[i];
  }
  sort_bitonic_over_lanes(best, lane, list_lanes);
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
    merge_best(best, others, 0, 1);
  }
}

/// The best of the lists of a row's lanes, each over `list_lanes` of them: to each of them, which
/// tells what it leaves out.
template <int n, class Entry, class Tell = nothing_told>
__device__ inline void best_over_lanes(Entry (&best)[n], int lane, int list_lanes, int row_lanes,
                                       const Tell& tell = {}) {
#pragma unroll 1
  for (int mask = list_lanes; mask < row_lanes; mask *= 2) {
    with_mirrored(best, mask + list_lanes - 1, [&](Entry& own, Entry other) {
      tell(own < other ? own : other);
      own = own < other ? other : own;
    });
    sort_bitonic_over_lanes(best, lane, list_lanes);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
