// SPDX-License-Identifier: Apache-2.0
/// \file
/// Candidates for the k best elements of a row, found by a block chunk after chunk: bounds that at
/// least k elements reach, the vectors kept because of an element above, and the elements taken out
/// of them.
#pragma once

#include <gpu/group/combine.hpp>
#include <gpu/group/select.hpp>
#include <gpu/row/tile.hpp>
#include <gpu/topk/results.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Entries among which a block finds the k best, in any order.
struct candidate_list {
  static constexpr int capacity = most_candidates;
  packed_entry entries[capacity];
  int found;

  __device__ void append(packed_entry e) {
    const int at = atomicAdd(&found, 1);
    if (at < capacity) {
      entries[at] = e;
    }
  }
};

/// The k best of n entries to `ranked`, in order, absent ones last: of each is counted how many are
/// before it, O(n^2) steps of the block's first `warps` warps together, but no barrier. They call
/// it after one, and `ranked` is complete after the next.
template <int lanes>
__device__ inline void rank_entries(const packed_entry* entries, int n, int k, int warps,
                                    packed_entry* ranked) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int warp = static_cast<int>(threadIdx.x) / lanes;
  if (warp >= warps) {
    return;
  }
  if (n <= lanes && warps > 1) {  // a warp compares all with an entry at once
    const packed_entry own = lane < n ? entries[lane] : 0;
    for (int i = warp; i < n; i += warps) {
      const packed_entry e = entries[i];
      const int before = count(ballot(own > e));
      if (lane == 0 && before < k) {
        ranked[before] = e;
      }
    }
  } else {
    const int thread = static_cast<int>(threadIdx.x);
    if (2 * n <= warps * lanes) {  // two lanes compare all with an entry
      const int i = thread / 2;
      if (i - lane / 2 < n) {  // a whole warp's condition
        const packed_entry e = i < n ? entries[i] : 0;
        int before = 0;
        for (int j = thread & 1; j < n; j += 2) {
          before += entries[j] > e ? 1 : 0;
        }
        before += shuffle_xor(before, 1);
        if (i < n && before < k) {
          ranked[before] = e;
        }
      }
    } else {
      for (int i = thread; i < n; i += warps * lanes) {
        const packed_entry e = entries[i];
        int before = 0;
        for (int j = 0; j < n; ++j) {
          before += entries[j] > e ? 1 : 0;
        }
        if (before < k) {
          ranked[before] = e;
        }
      }
    }
  }
  for (int i = n + static_cast<int>(threadIdx.x); i < k; i += warps * lanes) {
    ranked[i] = entry_of<packed_entry>::none();
  }
}

/// A number that the k-th largest of a warp's keys, `each` of every lane, reaches, and few more do;
/// 0 if fewer than k are not 0. `step`: by which keys differ, at least, if they do. By halving the
/// keys' range.
template <int lanes, std::uint32_t step, int each>
__device__ inline std::uint32_t bound_of_maxima(const std::uint32_t (&keys)[each], int k) {
  std::uint32_t low = ~std::uint32_t{0};
  std::uint32_t high = 0;
  int present = 0;
#pragma unroll
  for (int i = 0; i < each; ++i) {
    low = keys[i] < low && keys[i] != 0 ? keys[i] : low;
    high = keys[i] > high ? keys[i] : high;
    present += count(ballot(keys[i] != 0));
  }
  if (present < k) {
    return 0;
  }
  low = min_over_warp<lanes>(low);
  high = max_over_warp<lanes>(high);
  ++high;  // no key reaches it; 0 after NaN's key, for 2^32: differences are right
  while (high - low > step) {
    const std::uint32_t middle = low + (high - low) / 2;
    int reach = 0;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      reach += count(ballot(keys[i] >= middle));
    }
    if (reach < k) {
      high = middle;
    } else {
      low = middle;
      if (reach <= k + k / 8) {
        break;
      }
    }
  }
  std::uint32_t bound = ~std::uint32_t{0};  // a key: of those equal to it few may be wanted
#pragma unroll
  for (int i = 0; i < each; ++i) {
    bound = keys[i] >= low && keys[i] < bound ? keys[i] : bound;
  }
  return min_over_warp<lanes>(bound);
}

/// The least key from `key` on that an element can have; see spare_key_bits.
template <int spare>
__device__ inline std::uint32_t least_key_from(std::uint32_t key) {
  constexpr std::uint32_t mask = (1U << spare) - 1;
  if (key > ~mask) {
    return ~std::uint32_t{0};  // NaN's
  }
  return (key & 1U << 31) != 0 ? (key + mask) & ~mask : key | mask;
}

/// Shared memory of bound_by_bins.
using bound_memory = bins_memory<64>;

/// A key that at least k of a block's keys reach, and how many.
struct counted_bound {
  std::uint32_t key = 0;  ///< 0: fewer than k keys are not 0
  int reach = 0;
  bool is_kth = false;  ///< no larger one would do
};

/// A key that the k-th largest of a block's keys, one of every thread, reaches. By their numbers in
/// bins, one time: if many that differ, in bits from number `spare` on, share a bin, many more than
/// k reach it. A warp goes through fewer steps than one that halves the keys' range by itself while
/// the others wait. All threads of the block call it, with a barrier between two calls.
template <int lanes, int spare>
__device__ inline counted_bound bound_by_bins(std::uint32_t key, int k, bound_memory& memory) {
  int thread = static_cast<int>(threadIdx.x);
  forget_origin(thread);  // or the caller's loop would keep the numbers
  const int lane = thread % lanes;
  static_assert(bound_memory::bins <= least_chunk_threads);
  if (thread < bound_memory::bins) {
    memory.histogram[thread] = 0;
  }
  std::uint32_t ends[] = {key != 0 ? ~key : 0, key};  // ~low: the largest is the least's
  max_over_block<lanes>(ends, memory);
  const std::uint32_t low = ~ends[0];
  const std::uint32_t high = ends[1];
  const int shift = shift_to_bins(high - low, memory);
  if (key != 0) {
    atomicAdd(&memory.histogram[(high - key) >> shift], 1U);  // the largest in the first bin
  }
  __syncthreads();
  // Every warp looks for the k-th by itself.
  constexpr int each = bound_memory::bins / lanes;
  int counts[each];
  int own = 0;
#pragma unroll
  for (int i = 0; i < each; ++i) {
    counts[i] = static_cast<int>(memory.histogram[lane * each + i]);
    own += counts[i];
  }
  int up_to = own;
#pragma unroll
  for (int step = 1; step < lanes; step *= 2) {
    const int other = shuffle(up_to, (lane - step) & (lanes - 1));
    up_to += lane >= step ? other : 0;
  }
  int seen = up_to - own;
  const bool has_kth = seen < k && up_to >= k;
  int bin = lane * each;
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const bool goes_on = seen < k;
    bin += goes_on ? 1 : 0;
    seen += goes_on ? counts[i] : 0;
  }
  const auto found = static_cast<std::uint32_t>(bin << 16 | seen);
  const std::uint32_t result = max_over_warp<lanes>(has_kth ? found : 0);
  if (result == 0) {
    return {};
  }
  const std::uint32_t below = ((result >> 16) << shift) - 1;  // the largest
  return {least_key_from<spare>(below < high - low ? high - below : low),
          static_cast<int>(result & 0xffffU), shift <= spare};
}

/// Whether it holds for more than half of a warp's lanes.
template <int lanes>
__device__ inline bool is_most(bool holds) {
  return 2 * count(ballot(holds)) > lanes;
}

/// Vectors that a block keeps before it looks at their elements, at most.
inline constexpr int most_kept_vectors = 512;

template <class T>
struct topk_chunk_memory {
  block16 vectors[most_kept_vectors];
  int numbers[most_kept_vectors];  ///< of the vectors, in their span
  int kept;
  bool lost;  ///< there was no room for a vector
  candidate_list candidates;
  select_memory select;
  bound_memory bins;
  std::uint32_t keys[chunk_threads];
  std::uint32_t bound;
};

/// A number that at least k elements reach, -infinity until one is known. One comparison with it
/// takes the place of a key for each element.
template <class T>
struct reached_bound {
  T value = -infinity<T>;

  [[nodiscard]] __device__ std::uint32_t key() const { return order_key(value); }
  /// Whether it is another then.
  __device__ bool raise(std::uint32_t to) {
    const bool raises = to > key();
    value = raises ? core::value_of_key<T>(to) : value;
    return raises;
  }
  [[nodiscard]] __device__ bool is_nan() const { return value != value; }
  /// A number that all elements that reach the bound are not below, NaNs included.
  [[nodiscard]] __device__ T least() const { return is_nan() ? infinity<T> : value; }
  [[nodiscard]] __device__ bool is_reached_by(T x) const {
    return is_nan() ? x != x : !(x < value);
  }
  [[nodiscard]] __device__ bool is_exceeded_by(T x) const { return !is_nan() && !(x <= value); }
};

/// A key that at least k elements reach, and hardly more, or many that are equal.
struct chunk_bound {
  std::uint32_t key;
  bool many_reach;  ///< perhaps: the maxima that it was found by cannot tell that few do
};

/// The bound of a chunk, or of all until then; `key`: of the largest that the thread has had, 0 or
/// that of -infinity if none; `vectors`: that the threads have had, or a whole chunk's, which it
/// may say of a span that has less: if fewer than k threads have had any, the bound is that of
/// -infinity, and all elements of their vectors are candidates, for which there is room. All
/// `threads` threads of the block call it, with a barrier between two calls.
///
/// By the maxima of warps, of groups of 8 lanes, or of threads; if they are twice as many as k, or
/// in ascending rows too many elements would reach the bound. Of the threads fewer than k may have
/// elements: they have a vector each, and all are candidates.
template <int lanes, class In>
__device__ inline chunk_bound bound_of_chunk(std::uint32_t key, int vectors, int k, int threads,
                                             topk_chunk_memory<arithmetic_t<In>>& memory) {
  const int thread = static_cast<int>(threadIdx.x);
  const auto suffice = [&](int group) {
    return 2 * k * group <= threads && (k - 1) * group < vectors;
  };
  constexpr int few_lanes_bits = 3;
  constexpr int lanes_bits = lanes == 64 ? 6 : 5;
  const int group_bits = suffice(lanes)                 ? lanes_bits
                         : suffice(1 << few_lanes_bits) ? few_lanes_bits
                                                        : 0;
  if (group_bits == 0) {
    memory.keys[thread] = key;
    const counted_bound quick = bound_by_bins<lanes, spare_key_bits<In>>(key, k, memory.bins);
    const bool many_reach = quick.reach > k + k / 4 + 8;
    if (!many_reach || quick.is_kth) {
      return {quick.key, many_reach};
    }
    if (thread < lanes) {
      constexpr int each = chunk_threads / lanes;
      std::uint32_t keys[each];
#pragma unroll
      for (int i = 0; i < each; ++i) {
        const int at = i * lanes + thread;
        keys[i] = at < threads ? memory.keys[at] : 0;
      }
      const std::uint32_t bound = bound_of_maxima<lanes, (1U << spare_key_bits<In>)>(keys, k);
      if (thread == 0) {
        memory.bound = bound;
      }
    }
    __syncthreads();
    return {memory.bound, true};
  }
  std::uint32_t largest = key;
  const int group = 1 << group_bits;
  for (int mask = 1; mask < group; mask *= 2) {
    const std::uint32_t other = shuffle_xor(largest, mask);
    largest = other > largest ? other : largest;
  }
  if ((thread & (group - 1)) == 0) {
    memory.keys[thread >> group_bits] = largest;
  }
  __syncthreads();
  const int lane = thread % lanes;
  const std::uint32_t own = lane < threads >> group_bits ? memory.keys[lane] : 0;
  const std::uint32_t bound = kth_of_lanes<lanes>(own, k);
  return {bound, count(ballot(own >= bound)) > k + k / 2};
}

/// How many of what the block's threads have, `own` each, come before the thread's; `all`: theirs
/// together. All threads of the block call it, with a barrier between two calls.
template <int lanes, class T>
__device__ inline int count_before(int own, int& all, topk_chunk_memory<T>& memory) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int warp = static_cast<int>(threadIdx.x) / lanes;
  int up_to = own;
  for (int step = 1; step < lanes; step *= 2) {
    const int other = shuffle(up_to, lane >= step ? lane - step : lane);
    up_to += lane >= step ? other : 0;
  }
  if (lane == lanes - 1) {
    memory.keys[warp] = static_cast<std::uint32_t>(up_to);
  }
  __syncthreads();
  int before = up_to - own;
  all = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / lanes; ++w) {
    const int of_warp = static_cast<int>(memory.keys[w]);
    before += w < warp ? of_warp : 0;
    all += of_warp;
  }
  return before;
}

/// Of a block's vectors whose largest element is `bound`, a bit for each of the thread's in `ties`,
/// those with the chunk's k first such elements. All threads of the block call it.
template <int lanes, class In, int V>
__device__ inline unsigned first_of_ties(const tile<In, V>& own, unsigned ties,
                                         arithmetic_t<In> bound, int k,
                                         topk_chunk_memory<arithmetic_t<In>>& memory) {
  static_assert(V <= 8 && vector_width<In> < 16);
  unsigned counts = 0;  // of each vector's such elements, four bits
#pragma unroll
  for (int j = 0; j < V; ++j) {
    unsigned n = 0;
#pragma unroll
    for (int i = 0; i < vector_width<In>; ++i) {
      n += own.element(j, i) == bound ? 1 : 0;
    }
    counts |= (ties >> j & 1U) != 0 ? n << (4 * j) : 0U;
  }
  unsigned result = 0;
  int seen = 0;
#pragma unroll 1
  for (int j = 0; j < V && seen < k; ++j) {
    const int n = static_cast<int>(counts >> (4 * j) & 15U);
    if (__syncthreads_or(n) != 0) {
      int all = 0;
      const int before = seen + count_before<lanes>(n, all, memory);
      result |= n > 0 && before < k ? 1U << j : 0U;
      seen += all;
    }
  }
  return result;
}

/// Keeps those of a thread's vectors that are `wanted`, a bit for each; `first`: the chunk's first
/// vector in the span. It takes the same few instructions for one lane as for many.
template <class In, int V>
__device__ inline void keep_vectors(const tile<In, V>& own, int first, unsigned wanted,
                                    topk_chunk_memory<arithmetic_t<In>>& memory) {
  int n = count_bits(wanted);
  const int at = atomicAdd(&memory.kept, n);
  for (; n > 0 && at + n > most_kept_vectors; --n) {
    wanted &= wanted - 1;
    memory.lost = true;
  }
  block16* vector = memory.vectors + at;
  int* number = memory.numbers + at;
  int number_of_first = first + own.number(0);
  forget_origin(number_of_first);  // or it would be computed for each vector
#pragma unroll
  for (int j = 0; j < V; ++j) {
    if ((wanted >> j & 1U) != 0) {
      *vector++ = own.vector(j);
      *number++ = number_of_first + (own.number(j) - own.number(0));
    }
  }
}

/// Drops candidates that are not among the k best, until few others are left or all of them are
/// equal, and raises `bound` to a key that they all reach. All `threads` threads of the block call
/// it.
template <int lanes, class T>
__device__ inline void drop_candidates(int n, int k, int threads, std::uint32_t& bound,
                                       topk_chunk_memory<T>& memory) {
  const int found = n;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int warp = static_cast<int>(threadIdx.x) / lanes;
  const int warps = threads / lanes;
  const packed_entry* const entries = memory.candidates.entries;
  std::uint32_t high = bound;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < found; i += threads) {
    const std::uint32_t key = entry_of<packed_entry>::key(entries[i]);
    high = key > high ? key : high;
  }
  for (int mask = 1; mask < lanes; mask *= 2) {
    const std::uint32_t other = shuffle_xor(high, mask);
    high = other > high ? other : high;
  }
  int turn = 0;  // of two places for what the warps tell each other
  if (lane == 0) {
    memory.keys[warp] = high;
  }
  __syncthreads();
  for (int w = 0; w < warps; ++w) {
    high = memory.keys[w] > high ? memory.keys[w] : high;
  }
  // n reach `low`, fewer than k exceed `high`.
  std::uint32_t low = bound;
  while (low < high && n > k + k / 4) {
    const std::uint32_t middle = low + (high - low) / 2 + 1;
    int reach = 0;
#pragma unroll 1
    for (int base = 0; base < found; base += threads) {
      const int i = base + static_cast<int>(threadIdx.x);
      reach += count(ballot(i < found && entry_of<packed_entry>::key(entries[i]) >= middle));
    }
    turn = most_warps - turn;
    if (lane == 0) {
      memory.keys[turn + warp] = static_cast<std::uint32_t>(reach);
    }
    __syncthreads();
    reach = 0;
    for (int w = 0; w < warps; ++w) {
      reach += static_cast<int>(memory.keys[turn + w]);
    }
    if (reach >= k) {
      low = middle;
      n = reach;
    } else {
      high = middle - 1;
    }
  }
  bound = low;
  if (threadIdx.x == 0) {
    memory.candidates.found = 0;
  }
#pragma unroll 1
  for (int base = 0; base < found; base += threads) {  // what is kept moves to the front
    const int i = base + static_cast<int>(threadIdx.x);
    const packed_entry own = i < found ? entries[i] : 0;
    __syncthreads();
    if (own != 0 && entry_of<packed_entry>::key(own) >= low) {
      memory.candidates.append(own);
    }
    __syncthreads();
  }
}

/// Takes the candidates, elements that reach `bound`, out of the vectors that were kept, and raises
/// the bound if they are more than `most`. `column`: of the span's first vector's first element,
/// below 0 if that is not the row's. `last`: no more will be kept. All `threads` threads of the
/// block call it, after a barrier.
template <int lanes, bool last, class In>
__device__ inline void look_at_kept(const topk_arguments<In>& call, std::int64_t column, int most,
                                    int threads, reached_bound<arithmetic_t<In>>& bound,
                                    topk_chunk_memory<arithmetic_t<In>>& memory) {
  constexpr int width = vector_width<In>;
  const int n = memory.kept < most_kept_vectors ? memory.kept : most_kept_vectors;
  const auto least = bound.least();
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < n; i += threads) {
    const block16 elements = memory.vectors[i];
    const std::int64_t first = column + std::int64_t{memory.numbers[i]} * width;
    unsigned reaching = 0;
#pragma unroll
    for (int e = 0; e < width; ++e) {
      reaching |= element_of<In>(elements, e) < least ? 0U : 1U << e;
    }
    if (first < 0) {
      reaching &= ~0U << -first;
    }
    const std::int64_t rest = call.cols - first;  // elements to the row's end
    if (rest < width) {
      reaching &= rest > 0 ? (1U << rest) - 1U : 0U;
    }
    int at = reaching != 0 ? atomicAdd(&memory.candidates.found, count_bits(reaching)) : 0;
    for (; reaching != 0; reaching &= reaching - 1) {
      const int e = lowest_bit(reaching);
      const auto* const own = reinterpret_cast<const In*>(&memory.vectors[i]);
      if (at < candidate_list::capacity) {
        memory.candidates.entries[at] =
            entry_of<packed_entry>::make(order_key(widen(own[e])), first + e);
      }
      ++at;
    }
  }
  __syncthreads();
  const int found = memory.candidates.found;
  if (!last) {
    if (threadIdx.x == 0) {
      memory.kept = 0;
    }
    __syncthreads();
  }
  if (found > most && found <= candidate_list::capacity) {
    std::uint32_t raised = bound.key();
    drop_candidates<lanes>(found, static_cast<int>(call.k), threads, raised, memory);
    bound.raise(raised);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
