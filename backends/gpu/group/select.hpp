// SPDX-License-Identifier: Apache-2.0
/// \file
/// Selection by a block or a warp: the k largest of n keys.
#pragma once

#include <gpu/contract.hpp>
#include <gpu/plan/plan.hpp>

#include <core/topk.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// An element of a row as a number that is larger the earlier it ranks: its key, then its column,
/// reversed. All of a row differ. 0 is no element.
using packed_entry = std::uint64_t;  ///< 32-bit keys, columns below 2^32 - 1

struct wide_entry {
  std::uint64_t key;
  std::uint64_t reversed;  ///< ~column

  __device__ friend bool operator<(const wide_entry& a, const wide_entry& b) {
    return a.key != b.key ? a.key < b.key : a.reversed < b.reversed;
  }
  __device__ friend bool operator>=(const wide_entry& a, const wide_entry& b) { return !(a < b); }
};

template <class Entry>
struct entry_of;

template <>
struct entry_of<packed_entry> {
  __device__ static packed_entry make(std::uint32_t key, std::int64_t column) {
    return packed_entry{key} << 32 | ~static_cast<std::uint32_t>(column);
  }
  __device__ static packed_entry none() { return 0; }
  __device__ static bool exists(packed_entry e) { return e != 0; }
  __device__ static std::uint32_t key(packed_entry e) {
    return static_cast<std::uint32_t>(e >> 32);
  }
  __device__ static std::int64_t column(packed_entry e) { return ~static_cast<std::uint32_t>(e); }
};

template <>
struct entry_of<wide_entry> {
  __device__ static wide_entry make(std::uint64_t key, std::int64_t column) {
    return {key, ~static_cast<std::uint64_t>(column)};
  }
  __device__ static wide_entry none() { return {0, 0}; }
  __device__ static bool exists(const wide_entry& e) { return e.key != 0; }
  __device__ static std::uint64_t key(const wide_entry& e) { return e.key; }
  __device__ static std::int64_t column(const wide_entry& e) {
    return static_cast<std::int64_t>(~e.reversed);
  }
};

/// Shared memory of a selection by the numbers of keys in `count` bins. A `Number` counts all keys;
/// `ends`: numbers whose maximum over the block is found at once.
template <int count, int ends = 2, class Number = unsigned>
struct bins_memory {
  using number = Number;
  static constexpr int bins = count;
  /// Whether a thread has four bins, if any, that it reads at once: one by one they would be in the
  /// same banks as other threads' bins. Then blocks have chunk_threads threads or more.
  static constexpr bool by_fours = sizeof(Number) == 4 && bins >= 4 * chunk_threads;
  alignas(by_fours ? 16 : sizeof(Number)) Number histogram[bins];
  /// Keys of a thread that are on their way from memory at once.
  static constexpr int at_once = by_fours || sizeof(Number) == 8 ? 4 : 1;
  Number of_warps[32];
  std::uint64_t largest[ends][32];
  int bin;  ///< below 0: none
  std::uint64_t rest;
  Number in_bin;
};
using select_memory = bins_memory<256>;

/// The largest value of a warp's lanes: of the upper halves, then of the lower ones beside it.
template <int lanes>
__device__ inline std::uint64_t max_over_warp(std::uint64_t value) {
  const auto upper = static_cast<std::uint32_t>(value >> 32);
  const std::uint32_t most = max_over_warp<lanes>(upper);
  return std::uint64_t{most} << 32 |
         max_over_warp<lanes>(upper == most ? static_cast<std::uint32_t>(value) : 0);
}

/// Of each of n numbers the largest that a block's threads bring. All threads of the block call it
/// and get the result.
template <int lanes, int n, class Key, class Memory>
__device__ inline void max_over_block(Key (&values)[n], Memory& memory) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int warp = static_cast<int>(threadIdx.x) / lanes;
#pragma unroll
  for (int i = 0; i < n; ++i) {
    values[i] = max_over_warp<lanes>(values[i]);
    if (lane == 0) {
      memory.largest[i][warp] = values[i];
    }
  }
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / lanes;
#pragma unroll
  for (int i = 0; i < n; ++i) {
    const auto of_warp = [&](int w) { return static_cast<Key>(memory.largest[i][w]); };
    if constexpr (has_max_over_warp) {
      values[i] = max_over_warp<lanes>(lane < warps ? of_warp(lane) : Key{0});
    } else {
      for (int w = 0; w < warps; ++w) {
        values[i] = of_warp(w) > values[i] ? of_warp(w) : values[i];
      }
    }
  }
}

/// Bits by which differences up to `range` are shifted to be numbers of bins.
template <class Memory>
__device__ inline int shift_to_bins(std::uint64_t range, const Memory&) {
  constexpr int bits_of_bins = 63 - __builtin_clzll(Memory::bins);
  const int bits = 64 - leading_zeros(range);
  return bits > bits_of_bins ? bits - bits_of_bins : 0;
}

template <class Memory>
__device__ inline void clear_bins(Memory& memory) {
  for (int i = static_cast<int>(threadIdx.x); i < Memory::bins; i += static_cast<int>(blockDim.x)) {
    memory.histogram[i] = 0;
  }
}

/// A thread's bins, neighbours, of which the first thread has the lowest, and how many keys are in
/// them and in higher ones.
template <class Number>
struct thread_bins {
  int first;
  int count;
  Number keys;
  Number above;
};

/// Calls use(bin) for a thread's bins, from the highest on.
template <class Memory, class Use>
__device__ inline void for_each_bin(const thread_bins<typename Memory::number>& own, Memory& memory,
                                    const Use& use) {
  if constexpr (Memory::by_fours) {
    if (own.count > 0) {
      auto& stored = *reinterpret_cast<block16*>(memory.histogram + own.first);
      block16 bins = stored;
#pragma unroll
      for (int i = 3; i >= 0; --i) {
        use(bins.words[i]);
      }
      stored = bins;
    }
  } else {
    for (int i = own.count - 1; i >= 0; --i) {
      use(memory.histogram[own.first + i]);
    }
  }
}

/// Those of the calling thread. All threads of the block call it, with a barrier between two calls.
template <int lanes, class Memory>
__device__ inline thread_bins<typename Memory::number> bins_of_thread(Memory& memory) {
  using number = typename Memory::number;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % lanes;
  const int warp = thread / lanes;
  thread_bins<number> own{};
  own.count = Memory::by_fours ? (4 * thread < Memory::bins ? 4 : 0)
                               : Memory::bins / static_cast<int>(blockDim.x);
  own.first = thread * (Memory::by_fours ? 4 : own.count);
  for_each_bin(own, memory, [&](number bin) { own.keys += bin; });
  number from_here = own.keys;
  for (int step = 1; step < lanes; step *= 2) {
    const number other = shuffle(from_here, lane + step < lanes ? lane + step : lane);
    from_here += lane + step < lanes ? other : 0;
  }
  if (lane == 0) {
    memory.of_warps[warp] = from_here;
  }
  __syncthreads();
  own.above = from_here - own.keys;
  for (int w = warp + 1; w < static_cast<int>(blockDim.x) / lanes; ++w) {
    own.above += memory.of_warps[w];
  }
  return own;
}

/// Where the k largest of some keys end.
template <class Key>
struct cut {
  Key threshold;
  /// Keys equal to the threshold that belong to the k largest, if there are more of them than
  /// may reach it; 0: all keys >= threshold are chosen.
  std::int64_t ties;
  std::int64_t above;  ///< keys above the threshold, if there are ties
  std::int64_t reach;  ///< keys that are not below it
};

/// Calls use(i, get(i)) for a thread's share of 0 to n - 1, and perhaps use(i, 0) for a few beyond
/// them; `each` keys are on their way from memory at once.
template <class Key, int each, class Index, class Get, class Use>
__device__ inline void for_each_key(Index n, const Get& get, const Use& use) {
  const auto step = static_cast<Index>(blockDim.x);
  int thread = static_cast<int>(threadIdx.x);
  forget_origin(thread);  // or a caller's loop would keep what is computed of it
  for (auto first = static_cast<Index>(thread); first < n; first += each * step) {
    Key keys[each];
#pragma unroll
    for (int j = 0; j < each; ++j) {
      const Index i = first + j * step;
      keys[j] = i < n ? get(i) : Key{0};
    }
#pragma unroll
    for (int j = 0; j < each; ++j) {
      use(first + j * step, keys[j]);
    }
  }
}

/// Adds the numbers of the keys from `low` > 0 to `high` to those of their bins.
template <class Key, class Index, class Memory, class Get>
__device__ inline void count_in_bins(Index n, Key low, Key high, int shift, Memory& memory,
                                     const Get& get) {
  using number = typename Memory::number;
  if constexpr (sizeof(number) == 4) {
    for_each_key<Key, Memory::at_once>(n, get, [&](Index, Key key) {
      if (key >= low && key <= high) {
        atomicAdd(&memory.histogram[(key - low) >> shift], number{1});
      }
    });
  } else {  // rows so long that most keys may be in one bin: a thread's are added when it changes
    Key last = 0;
    number in_last = 0;
    const auto add = [&] {
      if (in_last > 0) {
        atomicAdd(&memory.histogram[last], in_last);
      }
    };
    for_each_key<Key, Memory::at_once>(n, get, [&](Index, Key key) {
      if (key >= low && key <= high) {
        const Key bin = (key - low) >> shift;
        if (bin != last) {
          add();
          in_last = 0;
        }
        last = bin;
        ++in_last;
      }
    });
    add();
  }
}

/// The end of the k largest of get(0), ..., get(n - 1), of which k at least are not 0, or of so
/// many more that `most` may be chosen, k <= most. All threads of the block, of which there are a
/// power of two and no more than bins, call it and get the result. 1 <= k. Reads the keys once for
/// their range and once for each narrowing of it as many times as there are bins: 2 or 3 times for
/// most inputs. The largest of the threads' least keys is taken for the end of the range at first:
/// most keys reach it, and a range across 0 would have most of its bins empty.
template <int lanes, class Key, class Index, class Memory, class Get>
__device__ cut<Key> kth_largest(Index n, std::int64_t k, std::int64_t most, Memory& memory,
                                const Get& get) {
  Key ends[] = {std::numeric_limits<Key>::max(), 0};
  for_each_key<Key, Memory::at_once>(n, get, [&](Index, Key key) {
    ends[0] = key != 0 && key < ends[0] ? key : ends[0];
    ends[1] = key > ends[1] ? key : ends[1];
  });
  ends[0] = ends[1] != 0 ? ends[0] : 1;
  max_over_block<lanes>(ends, memory);
  Key low = ends[0];
  Key high = ends[1];
  auto wanted = static_cast<std::uint64_t>(k);
  while (true) {
    const int shift = shift_to_bins(high - low, memory);
    clear_bins(memory);
    __syncthreads();
    count_in_bins(n, low, high, shift, memory, get);
    __syncthreads();
    const thread_bins own = bins_of_thread<lanes>(memory);
    if (own.above < wanted && own.above + own.keys >= wanted) {  // the last wanted key is there
      typename Memory::number seen = own.above;
      for (int i = own.count - 1; i >= 0; --i) {
        const typename Memory::number here = memory.histogram[own.first + i];
        if (seen + here >= wanted) {
          memory.bin = own.first + i;
          memory.rest = wanted - seen;
          memory.in_bin = here;
          break;
        }
        seen += here;
      }
    } else if (threadIdx.x == 0 && own.above + own.keys < wanted) {  // all that were counted
      memory.bin = -1;
    }
    __syncthreads();
    if (memory.bin < 0) {
      __syncthreads();
      low = 1;
      continue;
    }
    wanted = memory.rest;
    low += static_cast<Key>(static_cast<Key>(memory.bin) << shift);
    const std::int64_t above = k - static_cast<std::int64_t>(wanted);
    const std::int64_t reach = above + static_cast<std::int64_t>(memory.in_bin);
    const bool enough = reach <= most;
    __syncthreads();  // the memory may be written again
    if (enough || shift == 0) {
      return {low, enough ? 0 : static_cast<std::int64_t>(wanted), above, reach};
    }
    const Key width = (Key{1} << shift) - 1;
    high = high - low > width ? low + width : high;
  }
}

/// Calls emit(i, position) for the items that `cut`, made of the same keys, tells: for those above
/// the threshold, and for the first ties in the order of i. Positions are from 0 on, in the order
/// of i if there are ties; `selected`, in shared memory, becomes the number of items. All threads
/// of the block call it, and what they emit is seen by all after it.
template <int lanes, class Key, class Index, class Memory, class Get, class Emit>
__device__ void for_each_selected(Index n, const cut<Key>& cut, Memory& memory, int& selected,
                                  const Get& get, const Emit& emit) {
  __syncthreads();
  if (threadIdx.x == 0) {
    selected = static_cast<int>(cut.ties > 0 ? cut.above + cut.ties : 0);
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  if (cut.ties == 0) {
    constexpr int each = Memory::at_once;
    const auto step = static_cast<Index>(blockDim.x);
    int thread = static_cast<int>(threadIdx.x);
    forget_origin(thread);
    // By whole warps.
    for (auto first = static_cast<Index>(thread); first - lane < n; first += each * step) {
      Key keys[each];
#pragma unroll
      for (int j = 0; j < each; ++j) {
        const Index i = first + j * step;
        keys[j] = i < n ? get(i) : Key{0};
      }
      lane_mask chosen[each];
      int all = 0;
#pragma unroll
      for (int j = 0; j < each; ++j) {
        chosen[j] = ballot(keys[j] >= cut.threshold);  // > 0
        all += count(chosen[j]);
      }
      if (all == 0) {
        continue;
      }
      int at = lane == 0 ? atomicAdd(&selected, all) : 0;
      at = shuffle(at, 0);
#pragma unroll
      for (int j = 0; j < each; ++j) {
        if (keys[j] >= cut.threshold) {
          emit(first + j * step, at + count(chosen[j] & lanes_below()));
        }
        at += count(chosen[j]);
      }
    }
    __syncthreads();
    return;
  }
  const int warp = static_cast<int>(threadIdx.x) / lanes;
  const int warps = static_cast<int>(blockDim.x) / lanes;
  std::int64_t larger = 0;  // keys before this round
  std::int64_t seen = 0;    // and ties
  for (Index base = 0; base < n && (seen < cut.ties || larger < cut.above);
       base += static_cast<Index>(blockDim.x)) {
    const Index i = base + static_cast<Index>(threadIdx.x);
    const Key key = i < n ? get(i) : Key{0};
    const bool tie = key == cut.threshold;
    const lane_mask ties = ballot(tie);
    const lane_mask above = ballot(key > cut.threshold);
    if (lane == 0) {
      memory.histogram[warp] = static_cast<typename Memory::number>(count(ties));
      memory.of_warps[warp] = static_cast<typename Memory::number>(count(above));
    }
    __syncthreads();
    std::int64_t rank = seen + count(ties & lanes_below());
    std::int64_t before = larger + count(above & lanes_below());
    for (int w = 0; w < warps; ++w) {
      rank += w < warp ? memory.histogram[w] : 0;
      before += w < warp ? memory.of_warps[w] : 0;
      seen += memory.histogram[w];
      larger += memory.of_warps[w];
    }
    if (key > cut.threshold || (tie && rank < cut.ties)) {
      emit(i, static_cast<int>(before + (rank < cut.ties ? rank : cut.ties)));
    }
    __syncthreads();
  }
}

/// Moves those of n entries that exceed `bound` to the front, in any order, or the k best of them
/// if they are more; then `bound` is raised to just below these. Returns their number. By one warp.
template <int lanes>
__device__ inline int keep_best(packed_entry* entries, int n, int k, packed_entry& bound) {
  synchronize_warp();
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const auto reaching = [&](packed_entry least) {
    int result = 0;
#pragma unroll 1
    for (int base = 0; base < n; base += lanes) {
      result += count(ballot(base + lane < n && entries[base + lane] >= least));
    }
    return result;
  };
  packed_entry low = bound + 1;
  int reach = reaching(low);
  if (reach > k) {
    packed_entry high = 0;
#pragma unroll 1
    for (int i = lane; i < n; i += lanes) {
      high = entries[i] > high ? entries[i] : high;
    }
    for (int mask = lanes / 2; mask > 0; mask /= 2) {
      const packed_entry other = shuffle_xor(high, mask);
      high = other > high ? other : high;
    }
    // More than k entries reach `low`, fewer than k exceed `high`. Entries are all different.
    while (reach != k && low < high) {
      const packed_entry middle = k == 1 ? high : low + (high - low + 1) / 2;
      const int above = reaching(middle);
      if (above >= k) {
        low = middle;
        reach = above;
      } else {
        high = middle - 1;
      }
    }
    bound = low - 1;
  }
  int kept = 0;
#pragma unroll 1
  for (int base = 0; base < n; base += lanes) {
    const packed_entry e = base + lane < n ? entries[base + lane] : 0;
    const lane_mask keeps = ballot(e >= low);
    synchronize_warp();  // all have read what is overwritten
    if (e >= low) {
      entries[kept + count(keeps & lanes_below())] = e;
    }
    kept += count(keeps);
  }
  synchronize_warp();
  return kept;
}

/// The k-th largest of the keys of a warp's lanes.
template <int lanes>
__device__ inline std::uint32_t kth_of_lanes(std::uint32_t key, int k) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
#pragma unroll
  for (int size = 2; size <= lanes; size *= 2) {
#pragma unroll
    for (int step = size / 2; step > 0; step /= 2) {
      const std::uint32_t other = shuffle_xor(key, step);
      const bool larger = ((lane & step) == 0) == ((lane & size) == 0);
      key = (other > key) == larger ? other : key;
    }
  }
  return shuffle(key, k - 1);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
