// SPDX-License-Identifier: Apache-2.0
/// \file
/// The top-k kernels for any k.
///
/// One read of the row gives its state and the maximum of every group of neighbouring vectors. The
/// k-th largest of these is a lower bound of the k-th best element, so the k groups with the
/// largest maxima, earlier ones first among equals, hold all of the k best. Only they, or a few
/// more, are read again. Whether chunks are folded by one block or by many, a row's state has the
/// same bits.
#pragma once

#include "fold_tile.hpp"
#include "launch.hpp"
#include "select.hpp"
#include "sort.hpp"
#include "topk_row.hpp"

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The keys of a tile's elements, `size` vectors of which are the row's. `keys`, aligned to 16
/// bytes, has a place for each element of a vector.
template <class In>
__device__ inline void write_element_keys(const tile<In, 8>& own, int size,
                                          std::int64_t first_vector, key_t<In>* keys) {
  constexpr int width = vector_width<In>;
  auto* const to = reinterpret_cast<block16*>(keys + first_vector * width);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int v = own.number(j);
    if (v >= size) {
      break;
    }
    if constexpr (sizeof(key_t<In>) == 8) {
      const key_t<In> first = core::order_key(own.element(j, 0));
      const key_t<In> second = core::order_key(own.element(j, 1));
      to[v] = {{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(first >> 32),
                static_cast<std::uint32_t>(second), static_cast<std::uint32_t>(second >> 32)}};
    } else {
#pragma unroll
      for (int i = 0; i < width; i += 4) {
        to[(v * width + i) / 4] = {
            {core::order_key(own.element(j, i)), core::order_key(own.element(j, i + 1)),
             core::order_key(own.element(j, i + 2)), core::order_key(own.element(j, i + 3))}};
      }
    }
  }
}

/// The maxima of the groups of a tile's vectors, whose first is `first_vector` of the row.
/// Neighbour lanes halve the number of vectors that each of them goes on with, so that 8 vectors of
/// 8 lanes take 7 shuffles, not 24.
template <class In>
__device__ inline void write_group_maxima(const tile<In, 8>& own, int size, int group_vectors,
                                          std::int64_t first_vector, key_t<In>* keys) {
  using T = arithmetic_t<In>;
  const auto write = [&](int j, T largest) {
    const int v = own.number(j);
    if (v - v % group_vectors < size) {
      keys[(first_vector + v) / group_vectors] = core::order_key(largest);
    }
  };
  if (group_vectors == 1) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      write(j, own.max(j));
    }
    return;
  }
  const int lane = static_cast<int>(threadIdx.x);
  T largest[4];
  int first = 0;  // the number of the vector that largest[0] belongs to
  const auto exchanged = [&](T lower, T upper, int mask) {
    const bool keeps_upper = (lane & mask) != 0;
    return max_or_nan(keeps_upper ? upper : lower, shuffle_xor(keeps_upper ? lower : upper, mask));
  };
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    largest[i] = exchanged(own.max(i), own.max(i + 4), 1);
  }
  first += (lane & 1) != 0 ? 4 : 0;
  if (group_vectors == 2) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      write(first + i, largest[i]);
    }
    return;
  }
  largest[0] = exchanged(largest[0], largest[2], 2);
  largest[1] = exchanged(largest[1], largest[3], 2);
  first += (lane & 2) != 0 ? 2 : 0;
  if (group_vectors == 4) {
    write(first, largest[0]);
    write(first + 1, largest[1]);
    return;
  }
  largest[0] = exchanged(largest[0], largest[1], 4);
  first += (lane & 4) != 0 ? 1 : 0;
  if (group_vectors > 8) {
    largest[0] = max_or_nan(largest[0], shuffle_xor(largest[0], 8));
    largest[0] = max_or_nan(largest[0], shuffle_xor(largest[0], 16));
  }
  write(first, largest[0]);
}

/// What of a row competes for the k best.
enum class competitors : std::uint8_t {
  groups,    ///< groups of vectors by their maxima, then the elements of the best
  elements,  ///< all elements
};

/// A warp's part of a chunk: the keys of those that compete, if `keys` is to have them, and the
/// state where it is wanted.
template <int lanes, competitors who, class In>
__device__ inline state<arithmetic_t<In>> scan_chunk(const topk_arguments<In>& call, const In* x,
                                                     int chunk, key_t<In>* keys) {
  const std::int64_t first = std::int64_t{chunk} * chunk_vectors;
  const vector_range<In> range(x, call.cols, call.memory, first, chunk_vectors);
  int thread = static_cast<int>(threadIdx.x);
  forget_origin(thread);  // or the vectors' places would be kept from chunk to chunk
  tile<In, chunk_vectors_each> own(range, thread, chunk_threads);
  own.template load_long();
  if (call.groups > 0) {
    if constexpr (who == competitors::groups) {
      write_group_maxima(own, range.size(), call.group_vectors, first, keys);
    } else {
      write_element_keys(own, range.size(), first, keys);
    }
  }
  if (!call.folds) {
    return {};
  }
  own.next_pass();
  own.apply(call.map);
  constexpr int skips = sizeof(In) == 4 ? 2 : 1;
  return fold_tile<lanes, precision::fast, false, skips>(own, call.scale, lanes, own.max());
}

/// A chunk of a row: its group maxima and its state, to global memory.
template <int lanes, class In>
__global__ void __launch_bounds__(chunk_threads) topk_scan_chunk(const topk_arguments<In> call) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using T = arithmetic_t<In>;
  __shared__ fold_memory<T> memory;
  let_next_begin();
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(call.chunks);
  const int chunk = static_cast<int>(blockIdx.x % static_cast<unsigned>(call.chunks));
  const state<T> warp = scan_chunk<lanes, competitors::groups>(
      call, call.x + row * call.x_stride, chunk, call.keys + row * call.groups);
  if (call.folds) {
    const state<T> whole = combine_over_block<lanes>(warp, call.scale, memory);
    if (threadIdx.x == 0) {
      call.parts[blockIdx.x] = whole;
    }
  }
}

/// Shared memory of the selection of one row's k best.
using row_memory = bins_memory<1024>;

/// The selection of one row's k best by a block.
template <int lanes, competitors who, class In, class Entry>
class row_selection {
 public:
  using Key = key_t<In>;

  __device__ row_selection(const topk_arguments<In>& call, const In* x, Entry* entries,
                           unsigned* list, row_memory& memory, int* counters)
      : call_(call),
        range_(x, 0, call.memory),
        x_(x),
        entries_(entries),
        list_(list),
        memory_(memory),
        counters_(counters),
        present_(call.k < call.cols ? call.k : call.cols),
        groups_(call.group_vectors > 0
                    ? static_cast<int>(
                          ((range_.head + call.cols + vector_width<In> - 1) / vector_width<In> +
                           call.group_vectors - 1) /
                          call.group_vectors)
                    : 0) {}

  /// Calls emit(rank, entry) for the k best, and for absent ones with none().
  template <class Emit>
  __device__ void run(const Key* keys, const Emit& emit) {
    if (present_ == 0) {
      reset(found);
    } else if constexpr (who == competitors::groups) {
      collect_from_groups(keys);
    } else {
      collect_from_all(keys);
    }
    sort_entries<lanes, spare_bits>(entries_, counters_[found], memory_);
    for (std::int64_t i = threadIdx.x; i < call_.k; i += blockDim.x) {
      emit(i, i < counters_[found] ? entries_[i] : entry_of<Entry>::none());
    }
  }

 private:
  enum counter { found, listed };
  /// Packed entries have columns, and so vectors, of 32 bits.
  using vector_number =
      std::conditional_t<std::is_same_v<Entry, packed_entry>, std::uint32_t, std::int64_t>;
  /// The selection is made of keys without them: so it is complete sooner.
  static constexpr int spare_bits = spare_key_bits<In>;

  /// The power of two that n is.
  __device__ static int bits_of(int n) { return 63 - leading_zeros(static_cast<unsigned>(n)); }

  [[nodiscard]] __device__ Key key_at(std::int64_t column) const {
    return core::order_key(widen(x_[column]));
  }

  __device__ void reset(counter which) {
    __syncthreads();
    if (threadIdx.x == 0) {
      counters_[which] = 0;
    }
    __syncthreads();
  }

  /// Elements, or groups, that may be chosen instead of k: those of the elements that are too many
  /// come last when they are sorted.
  [[nodiscard]] __device__ std::int64_t most() const {
    const std::int64_t more = present_ + present_ / 4;
    return more < call_.capacity ? more : call_.capacity;
  }

  /// Appends the elements of the listed groups that reach a bound, or more than there is room for.
  __device__ void append_from_list(int groups, Key bound) {
    constexpr int width = vector_width<In>;
    reset(found);
    const int vectors = groups * call_.group_vectors;
    const int bits = bits_of(call_.group_vectors);
    const auto least = value_of_bound<arithmetic_t<In>>(bound);
    const auto* const whole = reinterpret_cast<const block16*>(range_.base);
    const auto first_whole = static_cast<vector_number>(range_.head > 0 ? 1 : 0);
    const auto end_whole = static_cast<vector_number>((range_.head + call_.cols) / width);
    const int step = static_cast<int>(blockDim.x);
    constexpr int each = 8 / width;  // on their way from memory at once
    for (int first = static_cast<int>(threadIdx.x); first < vectors; first += each * step) {
      if (*static_cast<const volatile int*>(&counters_[found]) > call_.capacity) {
        break;
      }
      const auto number = [&](int j) {
        const int i = first + j * step;
        return (static_cast<vector_number>(~list_[i >> bits]) << bits) +
               static_cast<vector_number>(i & (call_.group_vectors - 1));
      };
      block16 loaded[each];
      unsigned reach[each];
      int n = 0;
#pragma unroll
      for (int j = 0; j < each; ++j) {
        loaded[j] = no_elements<In>();
        reach[j] = 0;
        if (first + j * step < vectors) {
          const vector_number v = number(j);
          reach[j] = (1U << width) - 1;
          if (v >= first_whole && v < end_whole) {
            loaded[j] = load_vector<true>(whole + v);
          } else {
            const vector_range<In> around(x_, call_.cols, call_.memory, v, 1);
            loaded[j] = load_vector(around, 0);
            reach[j] =
                around.end > 0 ? reach[j] >> (width - around.end) & reach[j] << around.head : 0;
          }
        }
      }
#pragma unroll
      for (int j = 0; j < each; ++j) {
        unsigned reaching = 0;
#pragma unroll
        for (int e = 0; e < width; ++e) {
          reaching |= element_of<In>(loaded[j], e) < least ? 0U : 1U << e;
        }
        reach[j] &= reaching;
        n += count_bits(reach[j]);
      }
      if (n == 0) {
        continue;
      }
      int at = atomicAdd(&counters_[found], n);
#pragma unroll
      for (int j = 0; j < each; ++j) {
        if (reach[j] == 0) {
          continue;
        }
        const std::int64_t column = static_cast<std::int64_t>(number(j)) * width - range_.head;
        for (; reach[j] != 0; reach[j] &= reach[j] - 1) {
          const int e = lowest_bit(reach[j]);
          arithmetic_t<In> value = element_of<In>(loaded[j], 0);
#pragma unroll
          for (int other = 1; other < width; ++other) {
            value = e == other ? element_of<In>(loaded[j], other) : value;
          }
          if (at < call_.capacity) {
            entries_[at] = entry_of<Entry>::make(core::order_key(value), column + e);
          }
          ++at;
        }
      }
    }
    __syncthreads();
  }

  /// Lists the groups that `end` tells, if there are ties in their order; returns their number.
  __device__ int list_groups(const Key* keys, const cut<Key>& end) {
    for_each_selected<lanes>(
        groups_, end, memory_, counters_[listed], reduced(keys),
        [&](int g, int position) { list_[position] = ~static_cast<unsigned>(g); });
    return counters_[listed];
  }
  [[nodiscard]] __device__ static auto reduced(const Key* keys) {
    return [keys](int g) { return keys[g] >> spare_bits; };
  }

  /// Appends the elements that reach the k-th largest maximum of the groups. False if they are too
  /// many; then `end` is that of the groups, and they are listed.
  __device__ bool collect_from_best(const Key* keys, cut<Key>& end, int& groups) {
    std::int64_t k = present_;
    std::int64_t most_groups = most();
#pragma unroll 1
    for (bool again = false;; again = true) {
      cut<Key> chosen = kth_largest<lanes, Key>(groups_, k, most_groups, memory_, reduced(keys));
      if (chosen.reach <= call_.capacity) {
        chosen.ties = 0;  // there is room for all of them
      }
      groups = list_groups(keys, chosen);
      append_from_list(groups, chosen.threshold << spare_bits);
      const int n = counters_[found];
      if (n <= call_.capacity && (!again || (n >= present_ && chosen.ties == 0))) {
        return true;
      }
      if (again) {
        groups = list_groups(keys, {end.threshold, 0, 0, 0});  // it had no ties
        return false;
      }
      end = chosen;
      if (chosen.ties > 0) {
        return false;
      }
      // As in ascending rows, where all elements of the best groups are above.
      k = (present_ + present_ / 4) / (call_.group_vectors * vector_width<In>)+1;
      most_groups = k + k / 4;
    }
  }

  /// Appends the k best elements, and perhaps a few more. If `keys` has none, they are made of the
  /// row each time.
  __device__ void collect_from_all(const Key* keys) {
    const auto column_of = [](auto i) { return i; };
    const auto nothing = [] {};
    if (call_.groups > 0) {
      const Key* const own = keys + range_.head;
      const auto key_of = [own](int i) { return own[i]; };
      select(static_cast<int>(call_.cols), false, Key{0}, key_of, column_of, nothing);
    } else {
      const auto key_of = [this](std::int64_t i) { return key_at(i); };
      select(call_.cols, false, Key{0}, key_of, column_of, nothing);
    }
  }

  /// The same from groups.
  __device__ void collect_from_groups(const Key* keys) {
    cut<Key> end{};
    int groups = 0;
    if (collect_from_best(keys, end, groups)) {
      return;
    }
    const int each = call_.group_vectors * vector_width<In>;
    const int bits = bits_of(each);
    const std::int64_t skew = range_.head;
    const auto column_of = [&](std::int64_t i) {
      const std::int64_t column =
          (std::int64_t{~list_[i >> bits]} << bits) + (i & (each - 1)) - skew;
      return column >= 0 && column < call_.cols ? column : std::int64_t{-1};
    };
    const auto key_of = [&](std::int64_t i) {
      const std::int64_t column = column_of(i);
      return column < 0 ? Key{0} : key_at(column);
    };
    // If only ties were chosen, no element exceeds the bound.
    select(std::int64_t{groups} * each, end.ties == present_, end.threshold, key_of, column_of,
           [&] {
             if (end.ties == 0) {
               sort_list(groups);
             }
           });
  }

  /// The same of items 0 to n - 1, of which item i has key key_of(i), or 0 if there is no element,
  /// and column column_of(i). If `all_equal`, `key` is the largest there is, of k items at least.
  /// `order`: called before columns have to be in order.
  template <class Index, class KeyOf, class ColumnOf, class Order>
  __device__ void select(Index n, bool all_equal, Key key, const KeyOf& key_of,
                         const ColumnOf& column_of, const Order& order) {
    const auto get = [&](Index i) { return key_of(i) >> spare_bits; };
    cut<Key> exact = {key, present_, 0, present_};
    if (!all_equal) {
      exact = kth_largest<lanes, Key>(n, present_, most(), memory_, get);
      if (exact.ties > 0) {
        order();
      }
    }
    for_each_selected<lanes>(n, exact, memory_, counters_[found], get, [&](Index i, int position) {
      entries_[position] = entry_of<Entry>::make(key_of(i), column_of(i));
    });
  }

  __device__ void sort_list(int groups) {
    int size = 1;
    while (size < groups) {
      size *= 2;
    }
    for (int i = groups + static_cast<int>(threadIdx.x); i < size;
         i += static_cast<int>(blockDim.x)) {
      list_[i] = 0;
    }
    __syncthreads();
    sort_descending<lanes>(list_, size);  // complements: ascending groups
  }

  const topk_arguments<In>& call_;
  vector_range<In> range_;
  const In* x_;
  Entry* entries_;
  unsigned* list_;
  row_memory& memory_;
  int* counters_;
  std::int64_t present_;  ///< elements that the result has
  int groups_;
};

/// Bytes of dynamic shared memory of topk_row, and where its parts lie.
template <class In, class Entry>
struct topk_layout {
  using T = arithmetic_t<In>;
  std::size_t entries, list, keys, warps, bytes;

  __host__ __device__ topk_layout(int capacity, bool own_entries, std::int64_t groups,
                                  bool own_keys, int warp_states, int list_size) {
    entries = 0;
    warps = own_entries ? static_cast<std::size_t>(capacity) * sizeof(Entry) : 0;
    keys = warps + static_cast<std::size_t>(warp_states) * sizeof(state<T>);
    keys = (keys + sizeof(block16) - 1) / sizeof(block16) * sizeof(block16);
    list = keys + (own_keys ? static_cast<std::size_t>(groups) * sizeof(key_t<In>) : 0);
    bytes = list + static_cast<std::size_t>(list_size) * sizeof(unsigned);
  }
};

/// One row, or the selection of one row whose chunks were scanned.
template <int lanes, competitors who, class In, class Entry>
__global__ void __launch_bounds__(512, least_resident(2)) topk_row(const topk_arguments<In> call) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using T = arithmetic_t<In>;
  using Key = key_t<In>;
  unsigned char* const shared = dynamic_shared_memory();
  __shared__ row_memory memory;
  __shared__ int counters[2];
  __shared__ chunk_memory<T> fold;
  __shared__ shared_array<state<T>, 1> row_state;

  const std::int64_t row = blockIdx.x;
  const In* const x = call.x + row * call.x_stride;
  const int warps = static_cast<int>(blockDim.x) / lanes;
  wait_for_launch_before();
  const bool scans = call.scans();
  const topk_layout<In, Entry> layout(call.capacity, call.entries == nullptr, call.groups,
                                      call.keys == nullptr, scans ? call.chunks * (warps + 1) : 0,
                                      0);
  Entry* const entries = call.entries == nullptr
                             ? reinterpret_cast<Entry*>(shared + layout.entries)
                             : static_cast<Entry*>(call.entries) + row * call.capacity;
  Key* const keys = call.keys == nullptr ? reinterpret_cast<Key*>(shared + layout.keys)
                                         : call.keys + row * call.groups;

  const int warp = static_cast<int>(threadIdx.x) / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const state<T>* parts = call.parts == nullptr ? nullptr : call.parts + row * call.chunks;
  if (scans) {
    auto* const warp_states = reinterpret_cast<state<T>*>(shared + layout.warps);
    state<T>* const chunk_states = warp_states + call.chunks * warps;
    for (int chunk = 0; chunk < call.chunks; ++chunk) {
      const state<T> own = scan_chunk<lanes, who>(call, x, chunk, keys);
      if (lane == 0) {
        warp_states[chunk * warps + warp] = own;
      }
    }
    __syncthreads();
    if (call.folds) {  // as combine_over_block does for a chunk of its own block
      for (int chunk = warp; chunk < call.chunks; chunk += warps) {
        const state<T> whole =
            combine_states<lanes>(warp_states + chunk * warps, warps, call.scale);
        if (lane == 0) {
          chunk_states[chunk] = whole;
        }
      }
      __syncthreads();
    }
    parts = chunk_states;
  }
  if (call.folds && (warp == 0 || call.chunks > most_chunks_read_by_all)) {
    const state<T> whole = combine_chunks<lanes>(parts, call.chunks, call.scale, fold);
    if (threadIdx.x == 0) {
      row_state[0] = whole;
    }
  }

  row_selection<lanes, who, In, Entry> selection(
      call, x, entries, reinterpret_cast<unsigned*>(shared + layout.list), memory, counters);
  __syncthreads();  // the row's state is there
  const state<T> whole = call.folds ? row_state[0] : state<T>{};
  selection.run(keys, [&](std::int64_t rank, const Entry& e) {
    write_ranked<Entry>(call, x, row, rank, e, whole);
  });
  if (threadIdx.x == 0) {
    write_state(call, row, whole);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
