// SPDX-License-Identifier: Apache-2.0
/// \file
/// Top-k for small k in one read: a block takes a row, or a span of it, chunk by chunk. Of the
/// first chunk it makes a bound that at least k elements reach, the k-th largest of the maxima of
/// its warps, groups of lanes, or threads. Hardly more elements of the chunk reach it, and of all
/// later ones only those above it can be among the k best: for random rows about k each time that
/// the number of elements doubles, if the bound is raised as often, by the maxima of all chunks
/// until then. The ranks of these candidates are counted. Of few rows several blocks take a span
/// each, and a second kernel merges their lists.
/// (Keys are core's: with the device's, nvcc 13.0 keeps 24 bytes of registers in memory for sm_80.)
#pragma once

#include <gpu/contract.hpp>
#include <gpu/group/combine.hpp>
#include <gpu/group/select.hpp>
#include <gpu/topk/candidates.hpp>
#include <gpu/topk/results.hpp>
#include <gpu/topk/span_lists.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The k best of a span, of which too many reach `bound`; `exceeds`: whether one of the thread's
/// exceeds it. If none does, as in rows of equal numbers, the first columns are the best, and as
/// many vectors are read again as it takes; else all, three times or more. They are in `ranked`
/// after the next barrier.
template <int lanes, class In, class T>
__device__ void rank_many(const topk_arguments<In>& call, const In* x,
                          const vector_range<In>& range, bool exceeds, std::uint32_t bound,
                          topk_chunk_memory<T>& memory, packed_entry* ranked) {
  constexpr int width = vector_width<In>;
  const auto column_of = [&](int at) { return range.base + at - x; };
  if (__syncthreads_or(exceeds ? 1 : 0) == 0) {
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
      int all = 0;
      std::int64_t rank = seen + count_before<lanes>(ties, all, memory);
      seen += all;
#pragma unroll
      for (int i = 0; i < width; ++i) {
        if (is_tie(i)) {
          if (rank < call.k) {
            const std::uint32_t tie = core::order_key(element_of<In>(elements, i));
            ranked[rank] = entry_of<packed_entry>::make(tie, column_of(v * width + i));
          }
          ++rank;
        }
      }
      __syncthreads();
    }
    return;
  }
  const In* const first = range.base + range.head;
  const auto get = [&](int i) { return core::order_key(widen(first[i])); };
  const int n = range.end - range.head;
  const cut<std::uint32_t> end =
      kth_largest<lanes, std::uint32_t>(n, call.k, call.k, memory.select, get);
  for_each_selected<lanes>(
      n, end, memory.select, memory.candidates.found, get, [&](int i, int position) {
        memory.candidates.entries[position] = entry_of<packed_entry>::make(get(i), first - x + i);
      });
  rank_entries<lanes>(memory.candidates.entries, memory.candidates.found, static_cast<int>(call.k),
                      static_cast<int>(blockDim.x) / lanes, ranked);
}

/// What a block makes a list of. Where there are several chunks it has chunk_threads threads.
enum class list_of : std::uint8_t {
  chunk,  ///< a row of one chunk
  row,    ///< a row of several
  span,   ///< some chunks of a row
};

/// A last chunk of up to so many vectors for each thread is short. It would take nearly as long as
/// any: so it comes to shared memory while the others are worked on, and then needs no barrier.
inline constexpr int short_vectors_each = 2;
template <bool copies>
struct short_chunk_memory {
  static constexpr int size = copies ? chunk_threads * short_vectors_each : 0;
  block16 vectors[copies ? size : 1];
};

/// The results of a row each, or of each span the list to `lists` and its chunks' states to
/// call.parts.
template <int lanes, list_of work, class In>
__global__ void __launch_bounds__(chunk_threads, least_resident(4))
    topk_chunks(const topk_arguments<In> call, packed_entry* lists) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using T = arithmetic_t<In>;
  constexpr bool whole_rows = work != list_of::span;
  constexpr bool several_chunks = work != list_of::chunk;
  const int threads = several_chunks ? chunk_threads : static_cast<int>(blockDim.x);
  const int warps = threads / lanes;
  __shared__ topk_chunk_memory<T> memory;
  let_next_begin();
  auto* const warp_states = reinterpret_cast<softmax_state<T>*>(dynamic_shared_memory());
  std::int64_t row = blockIdx.x;
  int first = 0;
  int chunks = call.chunks;  // also 1: without a loop nvcc's registers do not suffice
  if constexpr (!whole_rows) {
    row = blockIdx.x / static_cast<unsigned>(call.spans);
    first = static_cast<int>(blockIdx.x % static_cast<unsigned>(call.spans)) * call.span;
    chunks = chunks - first < call.span ? chunks - first : call.span;
  }
  const In* const x = call.x + row * call.x_stride;
  if (threadIdx.x == 0) {
    memory.candidates.found = 0;
    memory.kept = 0;
    memory.lost = false;
  }
  const int k = static_cast<int>(call.k);
  const vector_range<In> span(x, call.cols, call.memory, std::int64_t{first} * chunk_vectors,
                              chunks * chunk_vectors);
  const std::int64_t column = span.base - x;
  const auto range_of = [&](int chunk) {
    return vector_range<In>(x, span, std::int64_t{first} * chunk_vectors, chunk * chunk_vectors,
                            chunk_vectors);
  };
  constexpr bool copies = copies_ahead && work == list_of::row;
  __shared__ short_chunk_memory<copies> copied;
  const int last_vectors = span.size() - (chunks - 1) * chunk_vectors;
  int whole_chunks = chunks;
  if (copies && last_vectors <= copied.size &&
      (chunks > 2 || last_vectors * vector_width<In> + 4 * k <= candidate_list::capacity)) {
    --whole_chunks;
    copy_ahead(range_of(whole_chunks), copied.vectors);
  }
  T largest = -infinity<T>;  // of the thread
  reached_bound<T> bound;
  const auto fold = [&](auto& own, int chunk, bool warp_has_some, T max) {
    if (!call.folds) {
      return;
    }
    softmax_state<T> folded;
    if (warp_has_some) {
      if (call.map != element_map::none) {
        own.apply(call.map);
        max = own.max();
      }
      constexpr int skips = 8 / vector_width<In>;
      folded = fold_tile<lanes, precision::fast, false, skips>(own, call.scale, lanes, max);
    }
    int thread = static_cast<int>(threadIdx.x);
    forget_origin(thread);
    if (thread % lanes == 0) {
      warp_states[chunk * warps + thread / lanes] = folded;
    }
  };
#pragma unroll 1
  for (int chunk = 0; chunk < whole_chunks; ++chunk) {
    const vector_range<In> range = range_of(chunk);
    int thread = static_cast<int>(threadIdx.x);
    forget_origin(thread);  // or what is computed of it would be kept from chunk to chunk
    tile<In, chunk_vectors_each> own(range, thread, threads);
    const bool has_some = thread < range.size();
    const bool warp_has_some = (thread & ~(lanes - 1)) < range.size();
    T max = -infinity<T>;
    if (warp_has_some) {
      own.template load_long<true, several_chunks>();
      max = own.max();
    }
    own.next_pass();
    largest = max_or_nan(largest, max);

    // For random rows a bound leaves about k candidates of as many chunks as it was found in: it is
    // raised whenever their number has doubled, once that leaves out enough to be worth it. Other
    // rows may exceed it more often: then it is raised at once. What was kept is looked at when
    // there might be no room for more.
    constexpr int worth_raising = 96;  // candidates
    bool looks_for_bound = !several_chunks || chunk == 0;
    bool is_due = false;
    if (several_chunks && chunk > 0) {
      const int kept = *static_cast<const volatile int*>(&memory.kept);
      const bool many =
          is_most<lanes>(has_some && bound.is_exceeded_by(max)) || 2 * kept > most_kept_vectors;
      const bool is_time = k * (chunk + 1) >= worth_raising && (chunk & (chunk + 1)) == 0;
      looks_for_bound = __syncthreads_or(many ? 1 : 0) != 0;
      if (looks_for_bound && chunk == whole_chunks - 1) {
        whole_chunks = chunks;  // more may exceed the bound, for all of which there is no room
      }
      looks_for_bound = looks_for_bound || is_time;
      // If so, no thread keeps anything before the next barrier, that of bound_of_chunk.
      if (looks_for_bound) {
        const int all_kept = *static_cast<const volatile int*>(&memory.kept);
        is_due = 2 * all_kept > most_kept_vectors || all_kept + 3 * k > most_kept_vectors;
      }
    }
    bool is_fresh = false;
    bool many_reach = false;
    if (looks_for_bound) {
      const int vectors = several_chunks ? chunk_vectors : range.size();
      const std::uint32_t key = several_chunks || has_some ? core::order_key(largest) : 0;
      const chunk_bound raised = bound_of_chunk<lanes, In>(key, vectors, k, threads, memory);
      is_fresh = bound.raise(raised.key);
      many_reach = raised.many_reach;
    }
    // Later elements equal to the bound come after k that are as large. Of many that are equal to
    // it the first ones are kept.
    const bool with_ties = !several_chunks || is_fresh || chunk == 0;
    unsigned wanted = 0;
    if (has_some && (with_ties ? bound.is_reached_by(max) : bound.is_exceeded_by(max))) {
      wanted = with_ties ? own.reaching(bound.value) : own.exceeding(bound.value);
    }
    if (with_ties && many_reach && __syncthreads_or(is_most<lanes>(wanted != 0) ? 1 : 0) != 0) {
      const unsigned ties = wanted != 0 ? wanted & ~own.exceeding(bound.value) : 0U;
      if (__syncthreads_or(is_most<lanes>(ties != 0) ? 1 : 0) != 0) {
        // Masked elements before a row, less than a vector's, equal a bound of -infinity.
        const int most = k + vector_width<In>;
        wanted = (wanted & ~ties) | first_of_ties<lanes>(own, ties, bound.value, most, memory);
      }
    }
    if (wanted != 0) {
      keep_vectors(own, chunk * chunk_vectors, wanted, memory);
    }
    own.next_pass();
    fold(own, chunk, warp_has_some, max);
    if (is_due && chunk + 1 < chunks) {
      __syncthreads();
      look_at_kept<lanes, false>(call, column, 3 * k + lanes, threads, bound, memory);
    }
  }
  if constexpr (copies) {
    wait_for_copies();
    if (whole_chunks < chunks) {
      const int thread = static_cast<int>(threadIdx.x);
      tile<In, short_vectors_each> own(range_of(whole_chunks), thread, threads);
      own.load(copied.vectors);
      const T max = own.max();
      largest = max_or_nan(largest, max);
      if (bound.is_exceeded_by(max)) {
        keep_vectors(own, whole_chunks * chunk_vectors, own.exceeding(bound.value), memory);
      }
      fold(own, whole_chunks, (thread & ~(lanes - 1)) < last_vectors, max);
    }
  }
  __syncthreads();
  look_at_kept<lanes, true>(call, column, k + 2 * lanes, threads, bound, memory);

  const int lane = static_cast<int>(threadIdx.x % lanes);
  const int warp = static_cast<int>(threadIdx.x / lanes);
  softmax_state<T>* const chunk_states = warp_states + chunks * warps;
  // The state of a single chunk is combined by one warp while the others rank.
  if (call.folds) {
    for (int chunk = warps - 1 - warp; chunk < chunks; chunk += warps) {
      const softmax_state<T> s =
          combine_states<lanes>(warp_states + chunk * warps, warps, call.states());
      if (lane == 0) {
        chunk_states[chunk] = s;
        if constexpr (!whole_rows) {
          call.parts[row * call.chunks + first + chunk] = s;
        }
      }
    }
  }
  static_assert(sizeof(memory.vectors) >= most_listed * sizeof(packed_entry));
  auto* const ranked = reinterpret_cast<packed_entry*>(memory.vectors);  // not needed any more
  if (!memory.lost && memory.candidates.found <= candidate_list::capacity) {
    constexpr bool has_several = least_chunk_threads > lanes;
    const int ranking = has_several && call.folds && chunks == 1 ? warps - 1 : warps;
    rank_entries<lanes>(memory.candidates.entries, memory.candidates.found, k, ranking, ranked);
  } else {
    rank_many<lanes>(call, x, span, bound.is_exceeded_by(largest), bound.key(), memory, ranked);
  }
  __syncthreads();
  if constexpr (whole_rows) {
    static_assert(most_span <= most_chunks_read_by_all);
    if (warp * lanes < k) {
      const softmax_state<T> whole =
          call.folds ? combine_states<lanes>(chunk_states, chunks, call.states())
                     : softmax_state<T>{};
      write_row(call, x, row, ranked, whole);
    }
  } else {
    for (int i = static_cast<int>(threadIdx.x); i < k; i += threads) {
      lists[blockIdx.x * call.k + i] = ranked[i];
    }
  }
}

inline constexpr int merge_threads = 128;

struct merge_memory {
  candidate_list candidates;
  packed_entry ranked[most_listed];
  select_memory select;
  packed_entry bound;
};

/// The k best of a row from the lists of its spans, to memory.ranked, by all threads of the block.
/// All spans but the last have k elements or more, so k elements at least reach the smallest of the
/// elements of rank k / (spans - 1), rounded up; and k reach the last of any list. `beside`: what
/// is done while the first warp finds that bound.
template <int lanes, class Beside>
__device__ inline void merge_lists_of_row(const span_lists& of, std::int64_t row,
                                          merge_memory& memory, const Beside& beside) {
  const std::int64_t k = of.k;
  const int spans = of.spans;
  const std::int64_t n = k * spans;
  const packed_entry* const lists = of.entries + row * n;
  // Loads that are under way together, and while the bound is found; of few rows these are all.
  constexpr int together = 8;
  packed_entry entries[together];
  const auto load = [&](std::int64_t first) {
#pragma unroll
    for (int i = 0; i < together; ++i) {
      const std::int64_t at = first + i * merge_threads;
      entries[i] = at < n ? lists[at] : 0;
    }
  };
  load(threadIdx.x);
  if (threadIdx.x < lanes) {
    const int lane = static_cast<int>(threadIdx.x);
    const std::int64_t rank = (k + spans - 2) / (spans - 1);
    packed_entry least = ~packed_entry{0};
    packed_entry last = 0;
    for (int c = lane; c < spans; c += lanes) {
      const packed_entry* const list = lists + c * k;
      const packed_entry at_rank = list[rank - 1];
      const packed_entry at_end = list[k - 1];
      least = c < spans - 1 && at_rank < least ? at_rank : least;
      last = at_end > last ? at_end : last;
    }
    for (int mask = lanes / 2; mask > 0; mask /= 2) {
      const packed_entry other_least = shuffle_xor(least, mask);
      const packed_entry other_last = shuffle_xor(last, mask);
      least = other_least < least ? other_least : least;
      last = other_last > last ? other_last : last;
    }
    if (lane == 0) {
      memory.bound = last > least ? last : least;
      memory.candidates.found = 0;
    }
  }
  beside();
  __syncthreads();
  candidate_list& candidates = memory.candidates;
  for (std::int64_t first = threadIdx.x;;) {
#pragma unroll
    for (int i = 0; i < together; ++i) {
      if (entries[i] >= memory.bound && first + i * merge_threads < n) {
        candidates.append(entries[i]);
      }
    }
    first += together * merge_threads;
    if (first >= n) {
      break;
    }
    load(first);
  }
  __syncthreads();
  if (candidates.found > candidate_list::capacity) {
    const auto get = [lists](std::int64_t i) { return lists[i]; };
    const cut<packed_entry> end = kth_largest<lanes, packed_entry>(n, k, k, memory.select, get);
    for_each_selected<lanes>(
        n, end, memory.select, candidates.found, get,
        [&](std::int64_t i, int position) { candidates.entries[position] = lists[i]; });
  }
  rank_entries<lanes>(candidates.entries, candidates.found, static_cast<int>(k),
                      merge_threads / lanes, memory.ranked);
  __syncthreads();
}

/// The results of rows whose spans have lists, with their states from those of their chunks.
template <int lanes, class In>
__global__ void __launch_bounds__(merge_threads)
    topk_merge(const topk_arguments<In> call, const span_lists lists) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using T = arithmetic_t<In>;
  __shared__ merge_memory memory;
  __shared__ chunk_memory<softmax_state<T>> groups;
  __shared__ shared_array<softmax_state<T>, 1> row_state;
  const std::int64_t row = blockIdx.x;
  wait_for_launch_before();
  let_next_begin();
  merge_lists_of_row<lanes>(lists, row, memory, [&] {
    // By the second warp.
    if (call.folds && (threadIdx.x / lanes == 1 || call.chunks > most_chunks_read_by_all)) {
      const softmax_state<T> whole =
          combine_chunks<lanes>(call.parts + row * call.chunks, call.chunks, call.states(), groups);
      if (threadIdx.x == lanes) {
        row_state[0] = whole;
      }
    }
  });
  write_row(call, call.x + row * call.x_stride, row, memory.ranked,
            call.folds ? row_state[0] : softmax_state<T>{});
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
