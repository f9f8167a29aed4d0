// SPDX-License-Identifier: Apache-2.0
/// \file
/// Sorting by a block, from large to small.
#pragma once

#include "select.hpp"

#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Calls use(j) for the numbers of a thread's entries among `count`, thread + j * blockDim.x, at
/// most `each` of them.
template <int each, class Use>
__device__ inline void for_each_own(int thread, const int& count, const Use& use) {
  const int n = count;
  const int threads = static_cast<int>(blockDim.x);
#pragma unroll
  for (int j = 0; j < each; ++j) {
    if (j * threads >= n) {
      break;
    }
    if (thread + j * threads < n) {
      use(j);
    }
  }
}

/// Sorts n entries, all different, from large to small: into bins, and within them by counting. All
/// threads of the block, as in kth_largest, call it, after a barrier. False, and nothing done, if
/// they are more than 8 for each thread, or too many for one bin, as many equal keys are. O(n)
/// steps if they are spread. `n`: in shared memory, so that it takes no register meanwhile.
template <int lanes, class Memory>
__device__ inline bool sort_by_bins(packed_entry* entries, const int& n, Memory& memory) {
  constexpr int each = 8;
  constexpr unsigned most_in_bin = 64;
  const int threads = static_cast<int>(blockDim.x);
  if (n > each * threads) {
    return false;
  }
  int thread = static_cast<int>(threadIdx.x);
  packed_entry own[each];
  packed_entry above_low = 0;  // ~low: the largest is the least's
  packed_entry high = 0;
  for_each_own<each>(thread, n, [&](int j) {
    own[j] = entries[thread + j * threads];
    above_low = ~own[j] > above_low ? ~own[j] : above_low;
    high = own[j] > high ? own[j] : high;
  });
  clear_bins(memory);
  max_over_block<lanes>(above_low, high, memory);
  const packed_entry low = ~above_low;
  const int shift = shift_to_bins(high - low, memory);
  const auto bin_of = [&](packed_entry e) { return static_cast<int>((e - low) >> shift); };
  unsigned place[each];  // in the bin, then among all
  bool crowded = false;
  forget_origin(thread);  // or a mask of lanes for each j would be kept from loop to loop
  for_each_own<each>(thread, n, [&](int j) {
    place[j] = atomicAdd(&memory.histogram[bin_of(own[j])], 1U);
    crowded = crowded || place[j] >= most_in_bin;
  });
  if (__syncthreads_or(crowded ? 1 : 0) != 0) {
    return false;
  }
  const thread_bins bins = bins_of_thread<lanes>(memory);
  unsigned start = bins.above;
  for_each_bin(bins, memory, [&](unsigned& bin) {
    const unsigned here = bin;
    bin = start;
    start += here;
  });
  __syncthreads();
  forget_origin(thread);
  for_each_own<each>(thread, n,
                     [&](int j) { entries[memory.histogram[bin_of(own[j])] + place[j]] = own[j]; });
  __syncthreads();
  forget_origin(thread);
  for_each_own<each>(thread, n, [&](int j) {
    const int bin = bin_of(own[j]);
    const unsigned first = memory.histogram[bin];
    const unsigned end = bin > 0 ? memory.histogram[bin - 1] : static_cast<unsigned>(n);
    place[j] = first;
#pragma unroll 4
    for (unsigned i = first; i < end; ++i) {
      place[j] += entries[i] > own[j] ? 1 : 0;
    }
  });
  __syncthreads();
  forget_origin(thread);
  for_each_own<each>(thread, n, [&](int j) { entries[place[j]] = own[j]; });
  __syncthreads();
  return true;
}

/// Sorts `entries`[0, n) from large to small; n is a power of two. Bitonic: O(n log^2 n) compares.
/// All threads of the block call it. A warp sorts few entries by itself, without the block's
/// barriers.
template <int lanes, class Entry>
__device__ void sort_descending(Entry* entries, int n) {
  const bool by_warp = n <= 8 * lanes;
  if (!by_warp || threadIdx.x < lanes) {
    const int workers = by_warp ? lanes : static_cast<int>(blockDim.x);
    for (int size = 2; size <= n; size *= 2) {
      for (int step = size / 2; step > 0; step /= 2) {
        for (int i = static_cast<int>(threadIdx.x); i < n / 2; i += workers) {
          const int a = (i & ~(step - 1)) * 2 + (i & (step - 1));
          const int b = a + step;
          const bool descending = (a & size) == 0;
          const Entry first = entries[a];
          const Entry second = entries[b];
          if ((first < second) == descending) {
            entries[a] = second;
            entries[b] = first;
          }
        }
        if (by_warp) {
          synchronize_warp();
        } else {
          __syncthreads();
        }
      }
    }
  }
  __syncthreads();
}

/// Sorts n entries, all different, from large to small. There is room for a power of two of them.
/// All threads of the block call it, after a barrier. `n`: as in sort_by_bins.
template <int lanes, class Entry, class Memory>
__device__ inline void sort_entries(Entry* entries, const int& n, Memory& memory) {
  if constexpr (std::is_same_v<Entry, packed_entry>) {
    if (sort_by_bins<lanes>(entries, n, memory)) {
      return;
    }
  }
  int size = 1;
  while (size < n) {
    size *= 2;
  }
  for (int i = n + static_cast<int>(threadIdx.x); i < size; i += static_cast<int>(blockDim.x)) {
    entries[i] = entry_of<Entry>::none();
  }
  __syncthreads();
  sort_descending<lanes>(entries, size);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
