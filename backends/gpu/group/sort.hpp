// SPDX-License-Identifier: Apache-2.0
/// \file
/// Sorting by a block, from large to small.
#pragma once

#include <gpu/group/select.hpp>

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

/// Numbers of bins, the larger the larger an entry is, in which entries are about as many each if
/// they are the best of a row whose elements get rarer the larger they are. An entry's distance to
/// the least one is written as a floating-point number, after an offset has been added that is a
/// 15th of the largest distance: so it has one of four exponents, and the smaller it is, the
/// narrower are the bins. The distance is of the bits that differ: the key without the `spare`
/// lowest ones, then the column's distance to the last. Between values below and above 0 it is that
/// of the values: of the keys' range almost all is of values next to 0.
template <int spare, int bins>
class entry_bins {
 public:
  /// Of entries from `low` to `high`, in columns whose bits in an entry are least_column to
  /// most_column.
  __device__ entry_bins(packed_entry low, packed_entry high, std::uint32_t least_column,
                        std::uint32_t most_column)
      : least_column_(least_column),
        column_bits_(64 - leading_zeros(most_column - least_column)),
        low_(compact(low)) {
    const float least = value(low);
    const float values = value(high) - least;
    // Of denormal numbers or infinity there is no 15th.
    if (least < 0 && value(high) > 0 && values > 0x1p-100F && values < infinity<float>) {
      column_bits_ = by_value;
      low_ = __float_as_uint(least);
      offset_ = __float_as_uint(values * (1 / 14.99F));
      first_ = offset_;
      return;
    }
    const std::uint64_t range = compact(high) - low_;
    const int bits = 64 - leading_zeros(range);
    shift_ = bits > distance_bits ? bits - distance_bits : 0;
    offset_ = static_cast<std::uint32_t>(range >> shift_) / 15 + 1;
    first_ = __float_as_uint(static_cast<float>(offset_));
  }
  __device__ unsigned operator()(packed_entry e) const {
    float distance;
    if (column_bits_ == by_value) {
      distance =
          value(e) - __uint_as_float(static_cast<std::uint32_t>(low_)) + __uint_as_float(offset_);
    } else {
      distance =
          static_cast<float>(static_cast<std::uint32_t>((compact(e) - low_) >> shift_) + offset_);
    }
    return (__float_as_uint(distance) - first_) >> step_bits;
  }

 private:
  static constexpr int by_value = -1;  ///< instead of column_bits_
  static constexpr int mantissa_bits = 23;
  static constexpr int distance_bits = mantissa_bits;  // with the offset they are exact in f32
  static constexpr int step_bits = mantissa_bits + 2 - (63 - __builtin_clzll(bins));

  [[nodiscard]] __device__ static float value(packed_entry e) {
    return core::value_of_key<float>(entry_of<packed_entry>::key(e));
  }
  [[nodiscard]] __device__ std::uint64_t compact(packed_entry e) const {
    return ((e >> (32 + spare)) << column_bits_) + (static_cast<std::uint32_t>(e) - least_column_);
  }

  std::uint32_t least_column_;
  int column_bits_;
  std::uint64_t low_;
  int shift_;
  std::uint32_t offset_;
  std::uint32_t first_;
};

/// Sorts n entries, all different, from large to small: into bins, and within them by counting. All
/// threads of the block, as in kth_largest, call it, after a barrier. False, and nothing done, if
/// they are more than sorted_each for each thread, or too many for one bin, as many equal keys are.
/// O(n) steps if they are spread. `n`: in shared memory, so that it takes no register meanwhile.
/// `spare`: see entry_bins. `entries` are aligned to 16 bytes, and there is room for an even
/// number.
template <int lanes, int spare, class Memory>
__device__ inline bool sort_by_bins(packed_entry* entries, const int& n, Memory& memory) {
  constexpr int each = sorted_each;
  constexpr unsigned most_in_bin = 160;  // beyond, the other way is as quick
  constexpr int place_bits = 8;
  const int threads = static_cast<int>(blockDim.x);
  if (n > each * threads) {
    return false;
  }
  int thread = static_cast<int>(threadIdx.x);
  packed_entry own[each];
  std::uint64_t ends[4] = {};  // of the complements and of the entries, then of their columns
  for_each_own<each>(thread, n, [&](int j) {
    own[j] = entries[thread + j * threads];
    const std::uint64_t brought[] = {~own[j], own[j], ~static_cast<std::uint32_t>(own[j]),
                                     static_cast<std::uint32_t>(own[j])};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      ends[i] = brought[i] > ends[i] ? brought[i] : ends[i];
    }
  });
  clear_bins(memory);
  max_over_block<lanes>(ends, memory);
  const entry_bins<spare, Memory::bins> bin_of(
      ~ends[0], ends[1], ~static_cast<std::uint32_t>(ends[2]), static_cast<std::uint32_t>(ends[3]));
  unsigned place[each];  // the bin, and the place in it; then among all
  bool crowded = false;
  forget_origin(thread);  // or a mask of lanes for each j would be kept from loop to loop
  for_each_own<each>(thread, n, [&](int j) {
    const unsigned bin = bin_of(own[j]);
    const unsigned in_bin = atomicAdd(&memory.histogram[bin], 1U);
    crowded = crowded || in_bin >= most_in_bin;
    place[j] = bin << place_bits | in_bin;
  });
  if (__syncthreads_or(crowded ? 1 : 0) != 0) {
    return false;
  }
  const auto bins = bins_of_thread<lanes>(memory);
  unsigned start = bins.above;
  for_each_bin(bins, memory, [&](unsigned& bin) {
    const unsigned here = bin;
    bin = start;
    start += here;
  });
  __syncthreads();
  forget_origin(thread);
  for_each_own<each>(thread, n, [&](int j) {
    const unsigned in_bin = place[j] & ((1U << place_bits) - 1);
    entries[memory.histogram[place[j] >> place_bits] + in_bin] = own[j];
  });
  if (threadIdx.x == 0 && n % 2 != 0) {
    entries[n] = 0;
  }
  __syncthreads();
  forget_origin(thread);
  for_each_own<each>(thread, n, [&](int j) {
    const unsigned bin = place[j] >> place_bits;
    const unsigned end = bin > 0 ? memory.histogram[bin - 1] : static_cast<unsigned>(n);
    // By pairs: an entry before the bin is larger, one after it is smaller than all in it.
    place[j] = memory.histogram[bin] & ~1U;
#pragma unroll 1
    for (unsigned i = place[j]; i < end; i += 2) {
      const block16 pair = *reinterpret_cast<const block16*>(entries + i);
      const packed_entry first = packed_entry{pair.words[1]} << 32 | pair.words[0];
      const packed_entry second = packed_entry{pair.words[3]} << 32 | pair.words[2];
      place[j] += (first > own[j] ? 1 : 0) + (second > own[j] ? 1 : 0);
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
/// All threads of the block call it, after a barrier. `n`, `spare`: as in sort_by_bins.
template <int lanes, int spare, class Entry, class Memory>
__device__ inline void sort_entries(Entry* entries, const int& n, Memory& memory) {
  if constexpr (std::is_same_v<Entry, packed_entry>) {
    if (sort_by_bins<lanes, spare>(entries, n, memory)) {
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
