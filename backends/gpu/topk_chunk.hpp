// SPDX-License-Identifier: Apache-2.0
/// \file
/// Top-k for small k in one read: a block finds the k best elements of a chunk while its registers
/// hold it, by a bound that at least k of them reach: the k-th largest of the maxima of its warps,
/// groups of lanes, or threads. Hardly more elements reach it, and their ranks are counted. A
/// second kernel merges the chunks' lists.
#pragma once

#include "launch.hpp"
#include "reduce.hpp"
#include "rows.hpp"
#include "select.hpp"
#include "topk_row.hpp"

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Entries among which a block finds the k best, in any order.
struct candidate_list {
  static constexpr int capacity = 1024;
  packed_entry entries[capacity];
  int found;

  /// Whether more were found than there is room for; others may be appending.
  [[nodiscard]] __device__ bool is_full() const {
    return *static_cast<const volatile int*>(&found) > capacity;
  }
  __device__ void append(packed_entry e) {
    const int at = atomicAdd(&found, 1);
    if (at < capacity) {
      entries[at] = e;
    }
  }
};

/// Calls emit(rank, entry) for the k best of n entries, absent ones last. All threads of the block
/// call it, after a barrier. Ranks are counted: O(n^2 / threads) steps, but no barrier.
template <class Emit>
__device__ inline void rank_entries(const packed_entry* entries, int n, std::int64_t k,
                                    const Emit& emit) {
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
    const packed_entry e = entries[i];
    int before = 0;
    for (int j = 0; j < n; ++j) {
      before += entries[j] > e ? 1 : 0;
    }
    if (before < k) {
      emit(before, e);
    }
  }
  for (std::int64_t i = n + static_cast<int>(threadIdx.x); i < k;
       i += static_cast<int>(blockDim.x)) {
    emit(i, entry_of<packed_entry>::none());
  }
}

/// A number that the k-th largest of a block's keys, one for each thread, reaches, and hardly any
/// smaller key does; by one warp, by halving.
template <int lanes>
__device__ inline std::uint32_t bound_of_keys(const std::uint32_t* keys, std::int64_t k) {
  constexpr int each = chunk_threads / lanes;
  std::uint32_t own[each];
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const int at = i * lanes + static_cast<int>(threadIdx.x);
    own[i] = at < static_cast<int>(blockDim.x) ? keys[at] : 0;
  }
  std::uint32_t bound = 0;
  for (std::uint32_t bit = 0x80000000U; bit != 0; bit >>= 1) {
    const std::uint32_t higher = bound | bit;
    int n = 0;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      n += count(ballot(own[i] >= higher));
    }
    if (n >= k) {
      bound = higher;
      if (n == k) {
        break;
      }
    }
  }
  return bound;
}

/// The k-th largest of a few keys, k <= `keys` <= lanes; by every warp.
template <int lanes>
__device__ inline std::uint32_t kth_of_few(const std::uint32_t* memory, int keys, std::int64_t k) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const std::uint32_t own = lane < keys ? memory[lane] : 0;
  int before = lane < keys ? 0 : keys;
  for (int i = 0; i < keys; ++i) {
    before += memory[i] > own || (memory[i] == own && i < lane) ? 1 : 0;
  }
  return shuffle(own, first_lane(ballot(before == k - 1)));
}

inline constexpr int merge_threads = 128;

template <class T>
struct topk_chunk_memory {
  candidate_list candidates;
  select_memory select;
  fold_memory<T> fold;
  std::uint32_t keys[chunk_threads];
  std::uint32_t bound;
};

/// The k best of a chunk, of which too many reach `bound`; `key`: the thread's largest. If none
/// exceeds the bound, as in rows of equal numbers, the first columns are the best, and as many
/// vectors are read again as it takes; else all, three times or more.
template <int lanes, class In, class T, class Emit>
__device__ void rank_many(const topk_arguments<In>& call, const In* x,
                          const vector_range<In>& range, std::uint32_t key, std::uint32_t bound,
                          topk_chunk_memory<T>& memory, const Emit& emit) {
  constexpr int width = vector_width<In>;
  const auto column_of = [&](int at) { return range.base + at - x; };
  if (__syncthreads_or(key > bound ? 1 : 0) == 0) {
    const int lane = static_cast<int>(threadIdx.x) % lanes;
    const int warp = static_cast<int>(threadIdx.x) / lanes;
    const int threads = static_cast<int>(blockDim.x);
    std::int64_t seen = 0;
    for (int first = 0; first < range.size() && seen < call.k; first += threads) {
      const int v = first + static_cast<int>(threadIdx.x);
      const block16 elements = v < range.size() ? load_vector(range, v) : no_elements<In>();
      const auto is_tie = [&](int i) {
        return core::order_key(element_of<In>(elements, i)) >= bound && range.has(v * width + i);
      };
      int ties = 0;
#pragma unroll
      for (int i = 0; i < width; ++i) {
        ties += is_tie(i) ? 1 : 0;
      }
      int up_to = ties;
      for (int step = 1; step < lanes; step *= 2) {
        const int other = shuffle(up_to, lane >= step ? lane - step : lane);
        up_to += lane >= step ? other : 0;
      }
      if (lane == lanes - 1) {
        memory.keys[warp] = static_cast<std::uint32_t>(up_to);
      }
      __syncthreads();
      std::int64_t rank = seen + up_to - ties;
      for (int w = 0; w < threads / lanes; ++w) {
        rank += w < warp ? memory.keys[w] : 0;
        seen += memory.keys[w];
      }
#pragma unroll
      for (int i = 0; i < width; ++i) {
        if (is_tie(i)) {
          if (rank < call.k) {
            const std::uint32_t tie = core::order_key(element_of<In>(elements, i));
            emit(rank, entry_of<packed_entry>::make(tie, column_of(v * width + i)));
          }
          ++rank;
        }
      }
      __syncthreads();
    }
    return;
  }
  if (threadIdx.x == 0) {
    memory.candidates.found = 0;
  }
  const In* const first = range.base + range.head;
  const auto get = [&](std::int64_t i) { return core::order_key(widen(first[i])); };
  const std::int64_t n = range.end - range.head;
  const cut<std::uint32_t> end = kth_largest<lanes, std::uint32_t>(n, call.k, memory.select, get);
  for_each_selected<lanes>(n, end, memory.select, get, [&](std::int64_t i) {
    memory.candidates.append(entry_of<packed_entry>::make(get(i), first - x + i));
  });
  __syncthreads();
  rank_entries(memory.candidates.entries, memory.candidates.found, call.k, emit);
}

/// The list of a chunk to `lists`, its state to call.parts; or, if there are no lists, the results
/// of a row of one chunk.
template <int lanes, class In>
__global__ void __launch_bounds__(chunk_threads, least_resident(4))
    topk_chunk(const topk_arguments<In> call, packed_entry* lists) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using T = arithmetic_t<In>;
  constexpr int width = vector_width<In>;
  const int threads = static_cast<int>(blockDim.x);
  const int warps = threads / lanes;
  __shared__ topk_chunk_memory<T> memory;
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(call.chunks);
  const int chunk = static_cast<int>(blockIdx.x % static_cast<unsigned>(call.chunks));
  const In* const x = call.x + row * call.x_stride;
  const vector_range<In> range(x, call.cols, call.memory, std::int64_t{chunk} * chunk_vectors,
                               chunk_vectors);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % lanes;
  const int warp = thread / lanes;
  tile<In, chunk_vectors_each> own(range, thread, threads);
  own.template load_long<true>();
  if (thread == 0) {
    memory.candidates.found = 0;
  }
  const std::uint32_t key = thread < range.size() ? core::order_key(own.max()) : 0;
  own.next_pass();

  // By the maxima of warps, of groups of 8 lanes, or of threads; if they are twice as many as k, or
  // in ascending rows too many elements would reach the bound. Of the threads fewer than k may have
  // elements: they have a vector each, and all are candidates.
  const auto suffice = [&](int group) {
    return 2 * call.k * group <= threads && (call.k - 1) * group < range.size();
  };
  constexpr int few_lanes = 8;
  const int group = suffice(lanes) ? lanes : suffice(few_lanes) ? few_lanes : 1;
  const bool few = group > 1;
  std::uint32_t largest = key;
  if (few) {
    for (int mask = 1; mask < group; mask *= 2) {
      const std::uint32_t other = shuffle_xor(largest, mask);
      largest = other > largest ? other : largest;
    }
    if (lane % group == 0) {
      memory.keys[thread / group] = largest;
    }
  } else {
    memory.keys[thread] = key;
  }
  __syncthreads();
  std::uint32_t bound = 0;
  if (few) {
    bound = kth_of_few<lanes>(memory.keys, threads / group, call.k);
  } else {
    if (warp == 0) {
      const std::uint32_t of_keys = bound_of_keys<lanes>(memory.keys, call.k);
      if (lane == 0) {
        memory.bound = of_keys;
      }
    }
    __syncthreads();
    bound = memory.bound;
  }
  if (key >= bound && key != 0) {
    const T least = core::value_of_key<T>(bound);
#pragma unroll
    for (int j = 0; j < chunk_vectors_each; ++j) {
      if (memory.candidates.is_full()) {
        break;
      }
#pragma unroll
      for (int i = 0; i < width; ++i) {
        const T value = own.element(j, i);
        if (!(value < least)) {  // also NaN
          const int at = own.number(j) * width + i;
          const std::uint32_t k = core::order_key(value);
          if (k >= bound && range.has(at)) {
            memory.candidates.append(entry_of<packed_entry>::make(k, range.base + at - x));
          }
        }
      }
    }
  }
  own.next_pass();
  if (call.folds) {
    own.apply(call.map);
    const state<T> folded = fold_tile<lanes, precision::fast, false>(own, call.scale, lanes);
    if (lane == 0) {
      memory.fold.warps[warp] = folded;
    }
  }
  __syncthreads();

  state<T> whole;  // of the chunk, in the order of combine_over_block
  if (call.folds && (lists == nullptr || warp == 0)) {
    whole = combine_states<lanes>(memory.fold.warps.data(), warps, call.scale);
    if (thread == 0 && lists != nullptr) {
      call.parts[blockIdx.x] = whole;
    }
  }
  const auto emit = [&](std::int64_t rank, packed_entry e) {
    if (lists != nullptr) {
      lists[blockIdx.x * call.k + rank] = e;
    } else {
      write_ranked<packed_entry>(call, x, row, rank, e, whole);
    }
  };
  if (memory.candidates.found <= candidate_list::capacity) {
    rank_entries(memory.candidates.entries, memory.candidates.found, call.k, emit);
  } else {
    rank_many<lanes>(call, x, range, key, bound, memory, emit);
  }
  if (lists == nullptr && thread == 0) {
    write_state(call, row, whole);
  }
}

/// The k best of a row from the lists of its chunks, and its state from theirs. All chunks but the
/// last have k elements or more, so k elements at least reach the smallest of the elements of rank
/// k / (chunks - 1), rounded up; and k reach the last of any list.
template <int lanes, class In>
__global__ void __launch_bounds__(merge_threads)
    topk_merge(const topk_arguments<In> call, const packed_entry* lists) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using T = arithmetic_t<In>;
  __shared__ candidate_list candidates;
  __shared__ select_memory select;
  __shared__ packed_entry bound;
  __shared__ shared_array<state<T>, 1> row_state;
  const std::int64_t row = blockIdx.x;
  const In* const x = call.x + row * call.x_stride;
  const std::int64_t n = call.k * call.chunks;
  lists += row * n;
  if (threadIdx.x < lanes) {
    const int lane = static_cast<int>(threadIdx.x);
    const std::int64_t rank = (call.k + call.chunks - 2) / (call.chunks - 1);
    packed_entry least = ~packed_entry{0};
    packed_entry last = 0;
    for (int c = lane; c < call.chunks; c += lanes) {
      const packed_entry* const list = lists + c * call.k;
      const packed_entry at_rank = list[rank - 1];
      const packed_entry at_end = list[call.k - 1];
      least = c < call.chunks - 1 && at_rank < least ? at_rank : least;
      last = at_end > last ? at_end : last;
    }
    for (int mask = lanes / 2; mask > 0; mask /= 2) {
      const packed_entry other_least = shuffle_xor(least, mask);
      const packed_entry other_last = shuffle_xor(last, mask);
      least = other_least < least ? other_least : least;
      last = other_last > last ? other_last : last;
    }
    state<T> whole;
    if (call.folds) {
      whole = combine_states<lanes>(call.parts + row * call.chunks, call.chunks, call.scale);
    }
    if (lane == 0) {
      bound = last > least ? last : least;
      candidates.found = 0;
      row_state[0] = whole;
    }
  }
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    const packed_entry e = lists[i];
    if (e >= bound) {
      candidates.append(e);
    }
  }
  __syncthreads();
  if (candidates.found > candidate_list::capacity) {
    __syncthreads();  // all have seen it
    if (threadIdx.x == 0) {
      candidates.found = 0;
    }
    const auto get = [&](std::int64_t i) { return lists[i]; };
    const cut<packed_entry> end = kth_largest<lanes, packed_entry>(n, call.k, select, get);
    for_each_selected<lanes>(n, end, select, get,
                             [&](std::int64_t i) { candidates.append(lists[i]); });
    __syncthreads();
  }
  const state<T> whole = row_state[0];
  rank_entries(candidates.entries, candidates.found, call.k,
               [&](std::int64_t rank, packed_entry e) {
                 write_ranked<packed_entry>(call, x, row, rank, e, whole);
               });
  if (threadIdx.x == 0) {
    write_state(call, row, whole);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
