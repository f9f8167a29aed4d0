// SPDX-License-Identifier: Apache-2.0
/// \file
/// Top-k of short rows, which are in the registers of some lanes of a warp. For very small k each
/// of k rounds finds the best element below the last; else the lanes sort all elements.
#pragma once

#include "tile.hpp"
#include "topk_row.hpp"

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The best element of a tile, or, if not `first`, the best that ranks after `last`. (No entry can
/// stand for the first: that of a NaN in column 0 is the greatest there is.) Columns are the row's.
template <class In, int V>
__device__ inline packed_entry best_below(const tile<In, V>& own, const vector_range<In>& range,
                                          bool first, packed_entry last) {
  constexpr int width = vector_width<In>;
  packed_entry best = entry_of<packed_entry>::none();
#pragma unroll
  for (int j = 0; j < V; ++j) {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const int at = own.number(j) * width + i;
      const packed_entry e = entry_of<packed_entry>::make(
          static_cast<std::uint32_t>(core::order_key(own.element(j, i))), at - range.head);
      best = range.has(at) && (first || e < last) && e > best ? e : best;
    }
  }
  return best;
}

template <int lanes, class In, int V>
__global__ void __launch_bounds__(256)
    topk_rows_by_lanes(const topk_arguments<In> call, int row_shift) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  const int row_lanes = 1 << row_shift;
  using T = arithmetic_t<In>;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t row = thread >> row_shift;
  const int lane = static_cast<int>(threadIdx.x) & (row_lanes - 1);
  const bool exists = row < call.rows;
  const In* const x = call.x + (exists ? row * call.x_stride : 0);
  const vector_range<In> range(x, exists ? static_cast<int>(call.cols) : 0, call.memory);
  tile<In, V> own(range, lane, row_lanes);
  own.template load<true>();
  state<T> whole;
  if (call.folds) {
    tile<In, V> scaled = own;
    scaled.apply(call.map);
    whole = fold_tile<lanes, precision::fast, false>(scaled, call.scale, row_lanes);
  }
  packed_entry last = entry_of<packed_entry>::none();
  for (std::int64_t rank = 0; rank < call.k; ++rank) {
    own.next_pass();  // or all elements' columns would be kept from round to round
    packed_entry best = best_below(own, range, rank == 0, last);
    for (int mask = row_lanes / 2; mask > 0; mask /= 2) {
      const packed_entry other = shuffle_xor(best, mask);
      best = other > best ? other : best;
    }
    if (exists && lane == 0) {
      write_ranked<packed_entry>(call, x, row, rank, best, whole);
    }
    last = best;
  }
  if (exists && lane == 0) {
    write_state(call, row, whole);
  }
}

/// An element and its column as one number that is larger the earlier it ranks, for sorting. 16-bit
/// elements of short rows need no more than 32 bits. 0 is no element.
template <class In>
struct sort_entry {
  using type = packed_entry;

  __device__ static type make(In x, int column) {
    return entry_of<packed_entry>::make(core::order_key(x), column);
  }
  __device__ static packed_entry unpacked(type e) { return e; }
};

template <class In>
requires(sizeof(In) == 2) struct sort_entry<In> {
  using type = std::uint32_t;

  __device__ static type make(In x, int column) {
    const float value = widen(x);
    const std::uint32_t bits = value == 0 ? 0 : x.bits;
    const std::uint32_t key = value != value          ? 0xffffU
                              : (bits & 0x8000U) != 0 ? ~bits & 0xffffU
                                                      : bits | 0x8000U;
    return key << 16 | (0xffffU - static_cast<std::uint32_t>(column));
  }
  __device__ static packed_entry unpacked(type e) {
    if (e == 0) {
      return entry_of<packed_entry>::none();
    }
    const std::uint32_t key = e >> 16;
    const std::uint32_t bits = (key & 0x8000U) != 0 ? key ^ 0x8000U : ~key & 0xffffU;
    return entry_of<packed_entry>::make(
        core::order_key(widen(In::from_bits(static_cast<std::uint16_t>(bits)))),
        0xffffU - (e & 0xffffU));
  }
};

/// Sorts n entries of each of `row_lanes` lanes from large to small: lane after lane, in each the
/// order of the array. Bitonic; n and row_lanes are powers of two.
template <int n, class Entry>
__device__ inline void sort_over_lanes(Entry (&entries)[n], int lane, int row_lanes) {
  const auto exchange = [&](int a, int b, bool descending) {
    const Entry first = entries[a];
    const Entry second = entries[b];
    const bool swaps = (first < second) == descending;
    entries[a] = swaps ? second : first;
    entries[b] = swaps ? first : second;
  };
  // Each lane by itself, every other one in ascending order.
#pragma unroll
  for (int size = 2; size <= n; size *= 2) {
#pragma unroll
    for (int step = size / 2; step > 0; step /= 2) {
#pragma unroll
      for (int i = 0; i < n / 2; ++i) {
        const int a = (i & ~(step - 1)) * 2 + (i & (step - 1));
        exchange(a, a + step, size < n ? (a & size) == 0 : (lane & 1) == 0 || row_lanes == 1);
      }
    }
  }
  for (int size = 2; size <= row_lanes; size *= 2) {
    const bool descending = (lane & size) == 0 || size == row_lanes;
    for (int mask = size / 2; mask > 0; mask /= 2) {
      const bool takes_larger = ((lane & mask) == 0) == descending;
#pragma unroll
      for (int i = 0; i < n; ++i) {
        const Entry other = shuffle_xor(entries[i], mask);
        entries[i] = (other > entries[i]) == takes_larger ? other : entries[i];
      }
    }
#pragma unroll
    for (int step = n / 2; step > 0; step /= 2) {
#pragma unroll
      for (int i = 0; i < n / 2; ++i) {
        const int a = (i & ~(step - 1)) * 2 + (i & (step - 1));
        exchange(a, a + step, descending);
      }
    }
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
      entries[j * width + i] =
          range.has(at)
              ? sort_entry<In>::make(stored_element<In>(own.vector(j), i), at - range.head)
              : Entry{0};
    }
  }
  own.next_pass();
  state<T> whole;
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
  for (int rank = lane; rank < call.k; rank += row_lanes) {
    const packed_entry e =
        rank < n * row_lanes
            ? sort_entry<In>::unpacked(best[rank / n * sorted_stride<In, V> + rank % n])
            : entry_of<packed_entry>::none();
    write_ranked<packed_entry>(call, x, row, rank, e, whole);
  }
  if (lane == 0) {
    write_state(call, row, whole);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
