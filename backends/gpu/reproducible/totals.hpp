// SPDX-License-Identifier: Apache-2.0
/// \file
/// Totals of rows, core/reproducible.hpp's row_total: a warp for each short row, else blocks for
/// chunks of rows and then one for each row.
#pragma once

#include <gpu/group/combine.hpp>
#include <gpu/group/integers.hpp>
#include <gpu/job/row_source.hpp>
#include <gpu/reproducible/packets.hpp>
#include <gpu/reproducible/total_state.hpp>
#include <gpu/row/row_chunks.hpp>
#include <gpu/uninitialised.hpp>

#include <core/reproducible.hpp>

#include <cstdint>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class A>
struct total_memory {
  static constexpr int most_warps = reader_threads / 32;

  A largest[most_warps];
  core::reproducible::exact_sum<A> sums[most_warps];
};

/// The largest of the block's threads' numbers, NaN if one is NaN; to all of them.
template <int lanes, class A>
__device__ inline A max_of_block(A own, total_memory<A>& memory) {
  own = max_over_lanes(own, lanes);
  __syncthreads();
  if (threadIdx.x % lanes == 0) {
    memory.largest[threadIdx.x / lanes] = own;
  }
  __syncthreads();
  own = memory.largest[0];
#pragma unroll
  for (int w = 1; w < reader_threads / lanes; ++w) {
    own = max_or_nan(own, memory.largest[w]);
  }
  return own;
}

/// Of groups of lanes, less than a warp, whose sums have words of 64 bits; each lane gets that of
/// lane `from`'s group.
template <class A>
__device__ inline core::reproducible::exact_sum<A> sum_over_lanes(
    core::reproducible::exact_sum<A> own, int members, int from) {
  const std::int32_t top = highest_over_lanes(own.top, members);
  own.raise(top);
  own.top = shuffle(top, from);
#pragma unroll
  for (int i = 0; i < own.words_of; ++i) {
    own.words[i] = {shuffle(sum_over_lanes(own.words[i].low, members), from), 0};
  }
  return own;
}
/// Of the block's threads' sums, to thread 0.
template <int lanes, class A>
__device__ inline core::reproducible::exact_sum<A> sum_over_block(
    const core::reproducible::exact_sum<A>& own, total_memory<A>& memory) {
  const core::reproducible::exact_sum<A> of_warp = sum_over_warp<lanes>(own);
  __syncthreads();
  if (threadIdx.x % lanes == 0) {
    memory.sums[threadIdx.x / lanes] = of_warp;
  }
  __syncthreads();
  core::reproducible::exact_sum<A> sum = of_warp;
  if (threadIdx.x == 0) {
    for (int w = 1; w < reader_threads / lanes; ++w) {
      sum.add(memory.sums[w]);
    }
  }
  return sum;
}

/// Of what the block's threads have added; to thread 0.
template <int lanes, class In, bool scaled>
__device__ inline part_total<float> total_of_block(const packet_thread<In, scaled>& own,
                                                   total_memory<float>& memory) {
  const float largest = max_of_block<lanes>(own.largest(), memory);
  return {own.element(largest), sum_over_block<lanes>(own.sum(), memory)};
}

/// x or, for a negative scale, -x.
template <class A>
__device__ inline A ordered(A x, A scale) {
  return scale < 0 ? -x : x;
}

/// Packets from column `first` on, `step` columns apart, by core/reproducible.hpp's own code, given
/// the row's largest element and frame. For what is not summed up in one read: rows of f64, of the
/// scale 0, and those far from 0.
template <class In>
__device__ inline void add_plainly(const row_reader<In>& row,
                                   const core::reproducible::frame<arithmetic_t<In>>& exponents,
                                   arithmetic_t<In> largest, std::int64_t first, std::int64_t step,
                                   core::reproducible::exact_sum<arithmetic_t<In>>& sum) {
  namespace reproducible = core::reproducible;
  using A = arithmetic_t<In>;
  const std::int32_t anchor = reproducible::anchor_of(reproducible::term_of(exponents(largest)).n);
  const A absent = exponents.scale < 0 ? infinity<A> : -infinity<A>;
  for (; first < row.cols; first += step) {
    reproducible::exponent<A> e[block_columns];
#pragma unroll
    for (int i = 0; i < block_columns; ++i) {
      e[i] = exponents(first + i < row.cols ? row.element(first + i) : absent);
    }
    reproducible::add_packet(e, anchor, sum);
  }
}
template <int lanes, class In>
__device__ inline arithmetic_t<In> largest_plainly(const row_reader<In>& row,
                                                   arithmetic_t<In> scale,
                                                   total_memory<arithmetic_t<In>>& memory) {
  using A = arithmetic_t<In>;
  A most = -infinity<A>;
  for (std::int64_t c = threadIdx.x; c < row.cols; c += blockDim.x) {
    most = max_or_nan(most, ordered(row.element(c), scale));
  }
  return ordered(max_of_block<lanes>(most, memory), scale);
}

/// What is wanted of rows' totals: all of them, or logsumexps only. What else is wanted of rows'
/// sums has the same members: see states.hpp.
template <class A>
struct total_results {
  using result = core::reproducible::row_total<A>;

  core::reproducible::row_total<A>* totals = nullptr;
  void* lse = nullptr;
  bool is_narrow = false;  ///< lse is of the elements' type

  __device__ static core::reproducible::frame<A> frame_of(A scale, A largest) {
    return core::reproducible::frame<A>::of(scale, largest);
  }
  __device__ static result of(A scale, A largest, const core::reproducible::exact_sum<A>& sum) {
    return result::of(scale, largest, sum);
  }
  template <class In>
  __device__ void write(std::int64_t row, const result& total) const {
    if (totals != nullptr) {
      totals[row] = total;
    }
    if (lse != nullptr) {
      if (is_narrow) {
        static_cast<In*>(lse)[row] = In(total.lse);
      } else {
        static_cast<A*>(lse)[row] = total.lse;
      }
    }
  }
};

/// Blocks of total_chunks on a multiprocessor.
constexpr int total_resident = 4;

/// Chunks of rows in f32 arithmetic.
template <int lanes, class In, bool scaled>
__global__ void __launch_bounds__(reader_threads, least_resident(total_resident))
    total_chunks(const row_source<In> source, const row_chunks chunks,
                 const ordered_scale<scaled> scale, part_total<float>* parts) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  __shared__ uninitialised<total_memory<float>> shared;
  let_next_begin();
  const auto row = static_cast<std::int64_t>(blockIdx.x / static_cast<unsigned>(chunks.count));
  const auto chunk = static_cast<int>(blockIdx.x % static_cast<unsigned>(chunks.count));
  const auto reader = row_reader<In>::of(source.row(row), source.cols);
  constexpr int ahead = reader_ahead<In>;
  constexpr int step = reader_threads * block_columns;
  packet_thread<In, scaled> own(scale);
  int left = own.most_packets / ahead;
  for (std::int64_t first = chunks.begin(chunk); first < chunks.end(chunk, source.cols);
       first += ahead * step) {
    column_block<In> blocks[ahead];
    reader.template load<step>(first, blocks);
    own.add(blocks, [&](int a) {
      return source.cols - (first + a * step + std::int64_t{threadIdx.x} * block_columns);
    });
    if (--left == 0) {
      own.carry();
      left = own.most_packets / ahead;
    }
  }
  const auto total = total_of_block<lanes>(own, shared.get());
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = total;
  }
}

/// A row's total of its parts, or, if there are none, of its elements; to thread 0 of a block.
template <int lanes, class In, class Results = total_results<arithmetic_t<In>>>
__device__ inline typename Results::result total_of_row(const row_source<In>& source,
                                                        std::int64_t row, const row_chunks& chunks,
                                                        arithmetic_t<In> scale,
                                                        const part_total<arithmetic_t<In>>* parts,
                                                        total_memory<arithmetic_t<In>>& memory) {
  namespace reproducible = core::reproducible;
  using A = arithmetic_t<In>;
  using total = reproducible::row_total<A>;
  const auto reader = row_reader<In>::of(source.row(row), source.cols);
  const auto is_far = [&](A largest) {
    return total::kind_of(scale, largest) == reproducible::row_kind::ordinary &&
           reproducible::frame<A>::of(scale, largest).is_far;
  };
  if constexpr (!std::is_same_v<A, double>) {
    if (parts != nullptr) {  // few: each warp combines them, which needs no barrier
      const part_total<A>* const first = parts + row * chunks.count;
      const total_state whole = combine_over_lanes(lanes, total_monoid(), [&](const auto& f) {
        for (auto i = static_cast<int>(threadIdx.x % lanes); i < chunks.count; i += lanes) {
          f(total_state{ordered(first[i].largest, scale), first[i].sum});
        }
      });
      const A largest = ordered(whole.largest, scale);
      if (!is_far(largest)) {
        return Results::of(scale, largest, whole.sum);
      }
    }
  }
  const A largest = largest_plainly<lanes>(reader, scale, memory);
  reproducible::exact_sum<A> sum;
  if (total::kind_of(scale, largest) == reproducible::row_kind::ordinary) {
    add_plainly(reader, Results::frame_of(scale, largest), largest,
                std::int64_t{threadIdx.x} * block_columns,
                std::int64_t{reader_threads} * block_columns, sum);
    sum = sum_over_block<lanes>(sum, memory);
  }
  return Results::of(scale, largest, sum);
}

/// A row for each block.
template <int lanes, class In, class Results>
__global__ void __launch_bounds__(reader_threads, least_resident(sizeof(In) == 8 ? 2 : 4))
    total_of_parts(const row_source<In> source, const row_chunks chunks,
                   const arithmetic_t<In> scale, const part_total<arithmetic_t<In>>* parts,
                   const Results to) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  __shared__ uninitialised<total_memory<arithmetic_t<In>>> shared;
  wait_for_launch_before();
  let_next_begin();
  const auto total =
      total_of_row<lanes, In, Results>(source, blockIdx.x, chunks, scale, parts, shared.get());
  if (threadIdx.x == 0) {
    to.template write<In>(blockIdx.x, total);
  }
}

/// Columns of a row that a warp has the total of, at most: of few rows, and of as many as fill the
/// device.
constexpr std::int64_t warp_columns = 2048;
constexpr std::int64_t warp_columns_of_many = 16384;

/// Member by member: compilers would choose between places in memory.
template <class A>
__device__ inline void take_where(bool takes, const core::reproducible::exact_sum<A>& from,
                                  core::reproducible::exact_sum<A>& to) {
  to.top = takes ? from.top : to.top;
#pragma unroll
  for (int i = 0; i < to.words_of; ++i) {
    to.words[i].low = takes ? from.words[i].low : to.words[i].low;
    to.words[i].high = takes ? from.words[i].high : to.words[i].high;
  }
}

/// How warps share short rows: each has `rows` of them, some at a time, lanes_of_row for each.
struct warp_rows {
  int rows;          ///< at most as many as a warp has lanes; a power of 2
  int lanes_of_row;  ///< a power of 2

  SOFTFOLD_HD static warp_rows of(std::int64_t rows, std::int64_t cols, int lanes,
                                  int multiprocessors) {
    // Two packets a lane make up for what the lanes' combination costs.
    int lanes_of_row = 1;
    while (lanes_of_row < lanes && 2 * block_columns * lanes_of_row < cols) {
      lanes_of_row *= 2;
    }
    int each = lanes / lanes_of_row;
    constexpr int warps = 64;  // of a multiprocessor at least, if there are as many rows
    while (each < lanes && std::int64_t{2} * each * warps * multiprocessors <= rows) {
      each *= 2;
    }
    return {each, lanes_of_row};
  }
};

/// Short rows. Each lane ends one of the warp's rows.
template <int lanes, class In, bool scaled, class Results>
__global__ void __launch_bounds__(reader_threads, least_resident(scaled ? 2 : 3))
    total_by_warp(const row_source<In> source, const warp_rows shared_by,
                  const ordered_scale<scaled> order, const float scale, const Results to) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  namespace reproducible = core::reproducible;
  using sum = reproducible::exact_sum<float>;
  using total = reproducible::row_total<float>;
  let_next_begin();
  const auto lane = static_cast<int>(threadIdx.x % lanes);
  const std::int64_t first_row =
      (std::int64_t{blockIdx.x} * (reader_threads / lanes) + threadIdx.x / lanes) * shared_by.rows;
  const int members = shared_by.lanes_of_row;
  const int groups = lanes / members;
  float largest = -infinity<float>;  // of the row that this lane ends
  sum whole;
  for (int r = 0; r < shared_by.rows; r += groups) {
    const std::int64_t row = first_row + r + lane / members;
    const bool exists = row < source.rows;
    const std::int64_t cols = exists ? source.cols : 0;
    const auto reader = row_reader<In>::of(source.row(exists ? row : 0), cols);
    packet_thread<In, scaled> own(order);
    constexpr int ahead = 2;
    const std::int64_t step = std::int64_t{members} * block_columns;
    int left = own.most_packets / ahead;
    for (std::int64_t first = std::int64_t{lane & (members - 1)} * block_columns; first < cols;
         first += ahead * step) {
      column_block<In> blocks[ahead];
#pragma unroll
      for (int a = 0; a < ahead; ++a) {
        reader.load(first + a * step, blocks[a]);
      }
      own.add(blocks, [&](int a) { return cols - (first + a * step); });
      if (--left == 0) {
        own.carry();
        left = own.most_packets / ahead;
      }
    }
    const int from = ((lane - r) & (groups - 1)) * members;
    const bool ends = lane >= r && lane < r + groups;
    const float row_largest = shuffle(max_over_lanes(own.largest(), members), from);
    largest = ends ? row_largest : largest;
    const sum row_sum = members == lanes ? sum_over_warp<lanes>(own.sum())
                                         : sum_over_lanes(own.sum(), members, from);
    take_where(ends, row_sum, whole);
  }
  largest = order.ordered(largest);
  const bool is_far = total::kind_of(scale, largest) == reproducible::row_kind::ordinary &&
                      reproducible::frame<float>::of(scale, largest).is_far;
  for (lane_mask left = ballot(is_far); left != 0; left &= left - 1) {
    const int of = count((left & (~left + 1)) - 1);
    sum plain;
    const float largest_of = shuffle(largest, of);
    add_plainly(row_reader<In>::of(source.row(first_row + of), source.cols),
                Results::frame_of(scale, largest_of), largest_of,
                std::int64_t{lane} * block_columns, std::int64_t{lanes} * block_columns, plain);
    plain = sum_over_warp<lanes>(plain);
    take_where(lane == of, plain, whole);
  }
  if (lane < shared_by.rows && first_row + lane < source.rows) {
    to.template write<In>(first_row + lane, Results::of(scale, largest, whole));
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
