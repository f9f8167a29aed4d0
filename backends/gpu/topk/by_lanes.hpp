// SPDX-License-Identifier: Apache-2.0
/// \file
/// Top-k of short rows, which are in the registers of some lanes of a warp. For small k the lanes
/// keep their best, and merge them; else they sort all elements.
#pragma once

#include <gpu/group/lane_sort.hpp>
#include <gpu/row/tile.hpp>
#include <gpu/topk/results.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// An element and its column as one number that is larger the earlier it ranks, for sorting. Of
/// 16-bit elements it has 32 bits. 0 is no element. A vector's places beyond its row are -infinity,
/// and their columns negative or not the row's: they rank after all elements.
template <class In>
struct sort_entry {
  using type = packed_entry;

  /// Of element i of a vector.
  __device__ static type make(const block16& vector, int i, int column) {
    return entry_of<packed_entry>::make(order_key(stored_element<In>(vector, i)), column);
  }
  __device__ static packed_entry unpacked(type e, std::int64_t cols) {
    return ~static_cast<std::uint32_t>(e) < cols ? e : entry_of<packed_entry>::none();
  }
};

template <class In>
requires(sizeof(In) == 2) struct sort_entry<In> {
  using type = std::uint32_t;

  __device__ static type make(const block16& vector, int i, int column) {
    return half_above(order_keys_of_pair<In>(vector.words[i / 2]), i % 2,
                      ~static_cast<std::uint32_t>(column));
  }
  __device__ static packed_entry unpacked(type e, std::int64_t cols) {
    const std::uint32_t column = ~e & 0xffffU;
    const std::uint32_t key = e >> 16;
    In x;
    x.bits = static_cast<std::uint16_t>((key & 0x8000U) != 0 ? key ^ 0x8000U : ~key);
    return column < cols ? entry_of<packed_entry>::make(order_key(widen(x)), column)
                         : entry_of<packed_entry>::none();
  }
};

/// The k best elements of a row, at most `most` and its columns, to `found`: of 32-bit elements in
/// no order. All lanes of a warp call it, each for a row that it shares with row_lanes - 1 others.
template <int most, class In, int V>
class best_of_row {
 public:
  using Entry = typename sort_entry<In>::type;
  static constexpr int width = vector_width<In>;

  /// Whether elements are sorted with their columns: 16-bit ones, as no number gets larger by that,
  /// and if it is not much work. Else columns come later.
  static constexpr bool by_entries = sizeof(In) == 2 || most == 1;

  /// Shared memory of a row.
  struct memory {
    Entry found[most];
    std::uint32_t keys[by_entries ? 1 : most];  ///< from large to small; not by_entries
  };

  /// `exists`: whether there is such a row.
  __device__ best_of_row(tile<In, V>& own, const vector_range<In>& range, bool exists, int lane,
                         int row_lanes, int k, memory& of_row)
      : own_(own),
        range_(range),
        exists_(exists),
        lane_(lane),
        row_lanes_(row_lanes),
        k_(k),
        keys_(of_row.keys),
        found_(of_row.found) {}

  /// All of it. `cols`: of all rows.
  __device__ void find(int cols) {
    if constexpr (by_entries) {
      find_entries();
    } else {
      find_keys(cols);
    }
    synchronize_warp();
  }

  /// Entry i < k, and its rank.
  [[nodiscard]] __device__ packed_entry ranked(int i, int cols, int& rank) const {
    const Entry e = found_[i];
    if constexpr (by_entries) {
      rank = i;
      return sort_entry<In>::unpacked(e, cols);
    } else {
      const std::uint32_t key = entry_of<Entry>::key(e);
      rank = 0;
#pragma unroll
      for (int step = most / 2; step > 0; step /= 2) {
        rank += keys_[rank + step - 1] > key ? step : 0;
      }
      if (rank + 1 < most && keys_[rank + 1] == key) {  // columns decide
        rank = 0;
        for (int j = 0; j < k_; ++j) {
          rank += found_[j] > e ? 1 : 0;
        }
      }
      return e;
    }
  }

 private:
  __device__ void find_entries() {
    Entry best[most];
    best_of_lane<V * width>(best, [&](int i) {
      return sort_entry<In>::make(own_.vector(i / width), i % width, column(i));
    });
    best_over_lanes(best, lane_, 1, row_lanes_);
    if (lane_ == 0) {
#pragma unroll
      for (int i = 0; i < most; ++i) {
        found_[i] = best[i];
      }
    }
  }

  /// By sorting keys, which is less than half of the work; then the elements are found that reach
  /// the k-th of them.
  __device__ void find_keys(int cols) {
    std::uint32_t best[most];
    best_of_lane<V * width>(best, [&](int i) { return order_key(element(i)); });
    own_.forget();
    best_over_lanes(best, lane_, 1, row_lanes_);
    if (lane_ == 0) {
#pragma unroll
      for (int i = 0; i < most; ++i) {
        keys_[i] = best[i];
      }
    }
    std::uint32_t kth = best[0];
#pragma unroll
    for (int i = 1; i < most; ++i) {
      kth = i < k_ ? best[i] : kth;
    }
    const auto least = exists_ ? value_of_bound<In>(kth) : infinity<In>;
    int below = 0;  // so many reach it of lower lanes
    int all = 0;
#pragma unroll
    for (int i = 0; i < V * width; ++i) {
      all += element(i) < least ? 0 : 1;
    }
#pragma unroll 1
    for (int mask = 1; mask < row_lanes_; mask *= 2) {
      const int others = shuffle_xor(all, mask);
      below += (lane_ & mask) != 0 ? others : 0;
      all += others;
    }
    if (ballot(exists_ && all != k_) == 0) {
#pragma unroll
      for (int i = 0; i < V * width; ++i) {
        if (!(element(i) < least)) {
          put(below++, element(i), column(i));
        }
      }
    } else {
      find_first_of_equal(kth, cols);
    }
    synchronize_warp();
    for (int i = lane_; i < k_; i += row_lanes_) {
      const Entry e = found_[i];
      found_[i] = entry_of<Entry>::make(order_key(__uint_as_float(entry_of<Entry>::key(e))),
                                        entry_of<Entry>::column(e));
    }
  }

  [[nodiscard]] __device__ In element(int i) const { return own_.element(i / width, i % width); }
  [[nodiscard]] __device__ int column(int i) const {
    return own_.number(i / width) * width + i % width - range_.head;
  }
  /// Its key is made later, when the lanes share them evenly.
  __device__ void put(int to, In x, int column) {
    found_[to] = entry_of<Entry>::make(__float_as_uint(x), column);
  }

  /// If more than k elements, or places beyond the row, reach the k-th: what is above it, and the
  /// first of its equals. These get the places from the last one on that the others leave.
  __device__ void find_first_of_equal(std::uint32_t kth, int cols) {
    const lane_mask row = ((lane_mask{2} << (row_lanes_ - 1)) - 1)
                          << (count(lanes_below()) - lane_);
    int above = 0;
    int equal = 0;
#pragma unroll 1
    for (int first = 0; first < cols; first += row_lanes_) {
      const int at = range_.head + first + lane_;
      const bool exists = range_.has(at);
      const In x = exists ? range_.base[at] : In{};
      const bool larger = exists && order_key(x) > kth;
      const bool same = exists && order_key(x) == kth;
      const lane_mask all_larger = ballot(larger) & row;
      const lane_mask all_same = ballot(same) & row;
      const int to = larger ? above + count(all_larger & lanes_below())
                            : k_ - 1 - equal - count(all_same & lanes_below());
      above += count(all_larger);
      equal += count(all_same);
      if (larger || (same && to >= above)) {
        put(to, x, first + lane_);
      }
      synchronize_warp();
    }
  }

  tile<In, V>& own_;
  const vector_range<In>& range_;
  bool exists_;
  int lane_;
  int row_lanes_;
  int k_;
  std::uint32_t* keys_;
  Entry* found_;
};

template <int lanes, int most, class In, int V>
__global__ void __launch_bounds__(256)
    topk_rows_by_lanes(const topk_arguments<In> call, int row_shift) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using T = arithmetic_t<In>;
  const int row_lanes = 1 << row_shift;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t row = thread >> row_shift;
  const int lane = static_cast<int>(threadIdx.x) & (row_lanes - 1);
  const bool exists = row < call.rows;
  const In* const x = call.x + (exists ? row * call.x_stride : 0);
  const vector_range<In> range(x, exists ? static_cast<int>(call.cols) : 0, call.memory);
  tile<In, V> own(range, lane, row_lanes);
  own.template load<true>();

  const auto cols = static_cast<int>(call.cols);
  const int k = call.k < call.cols ? static_cast<int>(call.k) : cols;
  using best_type = best_of_row<most, In, V>;
  best_type best(own, range, exists, lane, row_lanes, k,
                 reinterpret_cast<typename best_type::memory*>(
                     dynamic_shared_memory())[threadIdx.x >> row_shift]);
  best.find(cols);
  own.next_pass();
  softmax_state<T> whole;
  if (call.folds) {
    own.apply(call.map);
    whole = fold_tile<lanes, precision::fast, false>(own, call.scale, row_lanes);
  }
  if (!exists) {
    return;
  }
  const auto share = share_of_row<T>::of(call, whole);
  for (int i = lane; i < call.k; i += row_lanes) {
    int rank = i;
    const packed_entry e = i < k ? best.ranked(i, cols, rank) : entry_of<packed_entry>::none();
    write_ranked<packed_entry>(call, x, row, rank, e,
                               [&](T value) { return share(value, call.map); });
  }
  if (lane == 0) {
    write_state(call, row, whole);
  }
}

/// Entries from one thread's to the next one's in shared memory: in different banks.
template <class In, int V>
inline constexpr int sorted_stride = V* vector_width<In> + 1;

/// The same results by sorting. Dynamic shared memory: sorted_stride entries for each thread.
template <int lanes, class In, int V>
__global__ void __launch_bounds__(256)
    topk_rows_by_sorting(const topk_arguments<In> call, int row_shift) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using T = arithmetic_t<In>;
  using Entry = typename sort_entry<In>::type;
  constexpr int width = vector_width<In>;
  constexpr int n = V * width;
  const int row_lanes = 1 << row_shift;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t row = thread >> row_shift;
  const int lane = static_cast<int>(threadIdx.x) & (row_lanes - 1);
  const bool exists = row < call.rows;
  const In* const x = call.x + (exists ? row * call.x_stride : 0);
  const vector_range<In> range(x, exists ? static_cast<int>(call.cols) : 0, call.memory);
  tile<In, V> own(range, lane, row_lanes);
  own.template load<true>();
  Entry entries[n];
#pragma unroll
  for (int j = 0; j < V; ++j) {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const int at = own.number(j) * width + i;
      entries[j * width + i] = sort_entry<In>::make(own.vector(j), i, at - range.head);
    }
  }
  own.next_pass();
  softmax_state<T> whole;
  if (call.folds) {
    own.apply(call.map);
    whole = fold_tile<lanes, precision::fast, false>(own, call.scale, row_lanes);
  }
  sort_over_lanes(entries, lane, row_lanes);

  auto* const sorted = reinterpret_cast<Entry*>(dynamic_shared_memory());
#pragma unroll
  for (int i = 0; i < n; ++i) {
    sorted[threadIdx.x * sorted_stride<In, V> + i] = entries[i];
  }
  synchronize_warp();
  if (!exists) {
    return;
  }
  const Entry* const best = sorted + (threadIdx.x - lane) * sorted_stride<In, V>;
  const auto share = share_of_row<T>::of(call, whole);
  for (int rank = lane; rank < call.k; rank += row_lanes) {
    const packed_entry e =
        rank < n * row_lanes
            ? sort_entry<In>::unpacked(best[rank / n * sorted_stride<In, V> + rank % n], call.cols)
            : entry_of<packed_entry>::none();
    write_ranked<packed_entry>(call, x, row, rank, e,
                               [&](T value) { return share(value, call.map); });
  }
  if (lane == 0) {
    write_state(call, row, whole);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
