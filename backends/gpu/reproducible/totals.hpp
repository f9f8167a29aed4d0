// SPDX-License-Identifier: Apache-2.0
/// \file
/// Totals of rows, core/reproducible.hpp's row_total: blocks for chunks of rows and then one for
/// each row.
#pragma once

#include <gpu/group/combine.hpp>
#include <gpu/group/integers.hpp>
#include <gpu/job/row_source.hpp>
#include <gpu/reproducible/packets.hpp>
#include <gpu/reproducible/total_state.hpp>
#include <gpu/row/row_chunks.hpp>
#include <gpu/uninitialised.hpp>

#include <core/exact_state.hpp>
#include <core/reproducible.hpp>

#include <softfold/max_sum.hpp>

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

/// What is wanted of rows' sums: their totals, logsumexps only, or, without these, states.
template <class A>
struct total_results {
  core::reproducible::row_total<A>* totals = nullptr;
  void* lse = nullptr;
  bool is_narrow = false;  ///< lse is of the elements' type
  exact_max_sum<A>* states = nullptr;

  [[nodiscard]] __device__ core::reproducible::frame<A> frame_of(A scale, A largest) const {
    return states != nullptr ? core::reproducible::state_frame(scale, largest)
                             : core::reproducible::frame<A>::of(scale, largest);
  }
  template <class In>
  __device__ void write(std::int64_t row, A scale, const part_total<A>& found) const {
    if (states != nullptr) {
      states[row] = core::reproducible::state_of(scale, found.largest, found.sum);
      return;
    }
    const auto total = core::reproducible::row_total<A>::of(scale, found.largest, found.sum);
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
    const std::int64_t rest = source.cols - first;
    const int own_rest = static_cast<int>(rest < ahead * step ? rest : ahead * step) -
                         static_cast<int>(threadIdx.x) * block_columns;
    // Warps that have nothing of a row's last columns. The scaled have no register for it.
    if (!scaled && own_rest <= 0) {
      break;
    }
    column_block<In> blocks[ahead];
    reader.template load<step, !scaled>(first, blocks);
    own.add(blocks, [&](int a) { return own_rest - a * step; });
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

/// A row's largest element and sum, from its parts or, if there are none, its elements; to thread 0
/// of a block.
template <int lanes, class In>
__device__ inline part_total<arithmetic_t<In>> total_of_row(
    const row_source<In>& source, std::int64_t row, const row_chunks& chunks,
    arithmetic_t<In> scale, const part_total<arithmetic_t<In>>* parts,
    total_memory<arithmetic_t<In>>& memory, const total_results<arithmetic_t<In>>& to) {
  namespace reproducible = core::reproducible;
  using A = arithmetic_t<In>;
  using total = reproducible::row_total<A>;
  const auto reader = row_reader<In>::of(source.row(row), source.cols);
  part_total<A> found;
  if constexpr (!std::is_same_v<A, double>) {
    if (parts != nullptr && chunks.count <= lanes) {  // each warp combines them, without a barrier
      const auto lane = static_cast<int>(threadIdx.x % lanes);
      found = combine_over_lanes(lanes, total_monoid(), [&](const auto& f) {
        if (lane < chunks.count) {
          const part_total<A>& part = parts[row * chunks.count + lane];
          f(total_state{ordered(part.largest, scale), part.sum});
        }
      });
      found.largest = ordered(found.largest, scale);
      if (total::kind_of(scale, found.largest) != reproducible::row_kind::ordinary ||
          !reproducible::frame<A>::of(scale, found.largest).is_far) {
        return found;
      }
    }
  }
  if (parts != nullptr) {
    A most = -infinity<A>;
    for (auto i = static_cast<int>(threadIdx.x); i < chunks.count; i += reader_threads) {
      most = max_or_nan(most, ordered(parts[row * chunks.count + i].largest, scale));
    }
    found.largest = ordered(max_of_block<lanes>(most, memory), scale);
  } else {
    found.largest = largest_plainly<lanes>(reader, scale, memory);
  }
  if (total::kind_of(scale, found.largest) == reproducible::row_kind::ordinary) {
    reproducible::exact_sum<A> sum;
    if (parts == nullptr || reproducible::frame<A>::of(scale, found.largest).is_far) {
      add_plainly(reader, to.frame_of(scale, found.largest), found.largest,
                  std::int64_t{threadIdx.x} * block_columns,
                  std::int64_t{reader_threads} * block_columns, sum);
    } else {
      for (auto i = static_cast<int>(threadIdx.x); i < chunks.count; i += reader_threads) {
        sum.add(parts[row * chunks.count + i].sum);
      }
    }
    found.sum = sum_over_block<lanes>(sum, memory);
  }
  return found;
}

/// A row for each block.
template <int lanes, class In>
__global__ void __launch_bounds__(reader_threads, least_resident(sizeof(In) == 8 ? 2 : 4))
    total_of_parts(const row_source<In> source, const row_chunks chunks,
                   const arithmetic_t<In> scale, const part_total<arithmetic_t<In>>* parts,
                   const total_results<arithmetic_t<In>> to) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  __shared__ uninitialised<total_memory<arithmetic_t<In>>> shared;
  wait_for_launch_before();
  let_next_begin();
  const auto found =
      total_of_row<lanes>(source, blockIdx.x, chunks, scale, parts, shared.get(), to);
  if (threadIdx.x == 0) {
    to.template write<In>(blockIdx.x, scale, found);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
