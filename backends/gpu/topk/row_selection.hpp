// SPDX-License-Identifier: Apache-2.0
/// \file
/// The selection of a row's k best by a block, from the keys of groups of vectors or of all
/// elements.
///
/// The k-th largest maximum of the groups is a lower bound of the k-th best element, so the k
/// groups with the largest maxima, earlier ones first among equals, hold all of the k best. Only
/// they, or a few more, are read again.
#pragma once

#include <gpu/group/sort.hpp>
#include <gpu/row/vector_range.hpp>
#include <gpu/topk/results.hpp>
#include <gpu/topk/scan.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Shared memory of the selection of one row's k best.
union row_memory {
  bins_memory<1024, 4> bins;
  bins_memory<512, 2, unsigned long long> large_bins;  ///< rows of 2^32 columns or more
};

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
        present_(static_cast<int>(call.k < call.cols ? call.k : call.cols)),
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
    sort_entries<lanes, spare_bits>(entries_, counters_[found], memory_.bins);
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

  [[nodiscard]] __device__ static bool is_nan_key(Key key) {
    return key > core::order_key(infinity<arithmetic_t<In>>);
  }
  [[nodiscard]] __device__ Key key_at(std::int64_t column) const {
    return order_key(widen(x_[column]));
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
  [[nodiscard]] __device__ int most() const {
    const int more = present_ + present_ / 4;
    return more < call_.capacity ? more : call_.capacity;
  }

  /// Appends the elements of the listed groups that reach a bound, as far as there is room. They
  /// are counted up to twice of that, and some more.
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
      if (*static_cast<const volatile int*>(&counters_[found]) >= 2 * call_.capacity) {
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
          const arithmetic_t<In> value = element_at<In>(loaded[j], e);
          if (at < call_.capacity) {
            entries_[at] = entry_of<Entry>::make(order_key(value), column + e);
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
        groups_, end, memory_.bins, counters_[listed], reduced(keys),
        [&](int g, int position) { list_[position] = ~static_cast<unsigned>(g); });
    return counters_[listed];
  }
  [[nodiscard]] __device__ static auto reduced(const Key* keys) {
    return [keys](int g) { return keys[g] >> spare_bits; };
  }

  /// Groups of which k elements or more, and not too many, reach the least maximum, if n do of so
  /// many of the best groups: as many as would fill three quarters of the room if each had as many.
  /// The fewer they are, the fewer elements each of them has.
  [[nodiscard]] __device__ int groups_to_fill_room(int groups, int n) const {
    if (n >= 2 * call_.capacity) {  // as in ascending rows, where all elements are above
      const int elements = present_ + present_ / 4;
      return (elements >> bits_of(call_.group_vectors * vector_width<In>)) + 1;
    }
    const float room = 0.75F * static_cast<float>(call_.capacity);
    return static_cast<int>(static_cast<float>(groups) * room / static_cast<float>(n)) + 1;
  }

  /// Appends the elements that reach the k-th largest maximum of the groups. False if they are too
  /// many; then `end` is that of the groups, and they are listed.
  __device__ bool collect_from_best(const Key* keys, cut<Key>& end, int& groups) {
    int k = present_;
    int most_groups = most();
#pragma unroll 1
    for (bool again = false;; again = true) {
      const cut<Key> best =
          kth_largest<lanes, Key>(groups_, k, most_groups, memory_.bins, reduced(keys));
      cut<Key> chosen = best;
      if (best.reach <= call_.capacity) {
        chosen.ties = 0;  // there is room for all of them
      }
      groups = list_groups(keys, chosen);
      const Key bound = best.threshold << spare_bits;
      append_from_list(groups, bound);
      const int n = counters_[found];
      // +infinity reaches the value of NaN's key: only k groups with NaN have k elements for sure.
      const bool complete = !again || (n >= present_ && chosen.ties == 0 && !is_nan_key(bound));
      if (n <= call_.capacity && complete) {
        return true;
      }
      if (again) {
        if (!complete) {
          groups = list_groups(keys, {end.threshold, 0, 0, 0});  // it had no ties
        }
        return false;
      }
      // If all of the best maxima are equal, as many elements reach fewer of them.
      end = best.ties >= present_ ? best : chosen;
      if (end.ties > 0) {
        if (chosen.ties == 0) {
          groups = list_groups(keys, end);
        }
        return false;
      }
      k = groups_to_fill_room(best.reach, n);
      most_groups = k + k / 4;
    }
  }

  /// Appends the k best elements, and perhaps a few more. If `keys` has none, they are made of the
  /// row each time.
  __device__ void collect_from_all(const Key* keys) {
    const auto column_of = [](auto i) { return i; };
    if (call_.groups > 0) {
      const Key* const own = keys + range_.head;
      const auto key_of = [own](int i) { return own[i]; };
      const int n = static_cast<int>(call_.cols);
      append(n, cut_of(n, memory_.bins, key_of), memory_.bins, key_of, column_of);
      return;
    }
    const auto key_of = [this](std::int64_t i) { return key_at(i); };
    const std::int64_t n = call_.cols;
    if constexpr (std::is_same_v<Entry, wide_entry>) {
      if (n > std::int64_t{~std::uint32_t{0}}) {
        append(n, cut_of(n, memory_.large_bins, key_of), memory_.large_bins, key_of, column_of);
        return;
      }
    }
    append(n, cut_of(n, memory_.bins, key_of), memory_.bins, key_of, column_of);
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
    const auto column_of = [&](int i) {
      const std::int64_t column =
          (std::int64_t{~list_[i >> bits]} << bits) + (i & (each - 1)) - skew;
      return column >= 0 && column < call_.cols ? column : std::int64_t{-1};
    };
    const auto key_of = [&](int i) {
      const std::int64_t column = column_of(i);
      return column < 0 ? Key{0} : key_at(column);
    };
    const int n = groups * each;
    cut<Key> exact = end;
    if (end.ties < present_) {  // else only ties were chosen, and no element exceeds them
      exact = cut_of(n, memory_.bins, key_of);
      if (exact.ties > 0 && end.ties == 0) {
        sort_list(groups);  // columns have to be in order
      }
    }
    append(n, exact, memory_.bins, key_of, column_of);
  }

  /// Where the k best of items 0 to n - 1 end, of which item i has key key_of(i), or 0 if there is
  /// no element.
  template <class Index, class Memory, class KeyOf>
  __device__ cut<Key> cut_of(Index n, Memory& memory, const KeyOf& key_of) {
    return kth_largest<lanes, Key>(n, present_, most(), memory,
                                   [&](Index i) { return key_of(i) >> spare_bits; });
  }
  /// Appends the items up to there; item i has column column_of(i).
  template <class Index, class Memory, class KeyOf, class ColumnOf>
  __device__ void append(Index n, const cut<Key>& end, Memory& memory, const KeyOf& key_of,
                         const ColumnOf& column_of) {
    for_each_selected<lanes>(
        n, end, memory, counters_[found], [&](Index i) { return key_of(i) >> spare_bits; },
        [&](Index i, int position) {
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
  int present_;  ///< elements that the result has
  int groups_;
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
