// SPDX-License-Identifier: Apache-2.0
/// \file
/// Masses of a row's elements by a block: exact, as docs/sampling.md defines them, or near.
#pragma once

#include <gpu/group/combine.hpp>
#include <gpu/group/integers.hpp>
#include <gpu/row/row_reader.hpp>
#include <gpu/state/exponential.hpp>

#include <core/sampling.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Whether top-k cuts anything.
[[nodiscard]] __device__ inline bool cuts_k(const core::sampling::parameters& p,
                                            std::int64_t cols) {
  return p.top_k > 0 && p.top_k < cols;
}

/// The elements before one in the order of top-k, and all that have a part in top-p.
struct measured_row {
  core::sampling::mass before;
  core::sampling::mass whole;
  std::int64_t before_count;
  std::int64_t whole_count;

  /// Whether top-k and top-p keep the element.
  [[nodiscard]] __device__ bool keeps(const core::sampling::parameters& p,
                                      std::int64_t cols) const {
    return !(cuts_k(p, cols) && before_count >= p.top_k) &&
           !(p.top_p < 1 && before.reaches(core::sampling::share_of(p.top_p, whole)));
  }
};

/// The same about, of a part of the row: masses within a share of 2^-16.5 of themselves, relative
/// to the largest element's, or NaN; the numbers of elements are exact.
struct near_measure {
  float larger;
  float whole;
  float of_equal;  ///< of one element
  std::int64_t larger_count;
  std::int64_t equal_before;  ///< elements
};

struct measure_memory {
  measured_row exact;
  near_measure near;
};

/// The sum of the threads' parts; to all of them.
template <int lanes>
__device__ inline near_measure sum_over_block(const near_measure& own, measure_memory& memory) {
  __syncthreads();
  if (threadIdx.x == 0) {
    memory.near = {};
  }
  __syncthreads();
  add_over_block<lanes>(own.larger, memory.near.larger);
  add_over_block<lanes>(own.whole, memory.near.whole);
  add_over_block<lanes>(own.larger_count, memory.near.larger_count);
  add_over_block<lanes>(own.equal_before, memory.near.equal_before);
  __syncthreads();
  return memory.near;
}

/// A row, and what its masses are relative to.
template <class In>
struct row_measure {
  row_reader<In> row;
  double scale;
  double largest;  ///< of the z
  double depth;    ///< elements so far below it have a part
  float x;         ///< `before` is what stands before this element
  std::int64_t column;
  float largest_x = 0;  ///< for nearly()

  /// Of a finite number.
  __device__ static float next_above(float element) {
    const std::uint32_t bits = __float_as_uint(element);
    return __uint_as_float(element > 0 ? bits + 1 : element < 0 ? bits - 1 : 1U);
  }
  /// The least element that has a part: the depth in f64 by a comparison in f32.
  [[nodiscard]] __device__ float least() const {
    constexpr float none = -std::numeric_limits<float>::max();
    const auto has_part = [&](float element) {
      return largest - core::sampling::scaled(scale, static_cast<double>(element)) <= depth;
    };
    if (has_part(none)) {
      return none;
    }
    auto element = static_cast<float>((largest - depth) / scale);
    while (has_part(element)) {
      element = -next_above(-element);
    }
    while (!has_part(element)) {
      element = next_above(element);
    }
    return element;
  }

  /// The measure of columns [begin, end), begin a multiple of block_columns, to all threads of the
  /// block.
  template <int lanes>
  __device__ const measured_row& exactly(std::int64_t begin, std::int64_t end,
                                         measured_row& memory) const {
    namespace sampling = core::sampling;
    constexpr double infinite = std::numeric_limits<double>::infinity();
    __syncthreads();
    if (threadIdx.x == 0) {
      memory = {};
    }
    __syncthreads();
    measured_row own = {};
    for (std::int64_t first = begin + std::int64_t{threadIdx.x} * block_columns; first < end;
         first += std::int64_t{blockDim.x} * block_columns) {
      column_block<In> block;
      row.load(first, block);
#pragma unroll
      for (int i = 0; i < block_columns; ++i) {
        const float element = block.element(i);
        const double z = sampling::scaled(scale, static_cast<double>(element));
        const double below = largest - z;
        if (z > -infinite && below <= depth) {
          const std::uint64_t weight = sampling::weight_of(below);
          own.whole.add(weight);
          ++own.whole_count;
          if (element > x || (element == x && first + i < column)) {
            own.before.add(weight);
            ++own.before_count;
          }
        }
      }
    }
    add_over_block<lanes>(own.before, memory.before);
    add_over_block<lanes>(own.whole, memory.whole);
    add_over_block<lanes>(own.before_count, memory.before_count);
    add_over_block<lanes>(own.whole_count, memory.whole_count);
    __syncthreads();
    return memory;
  }

  /// Asks for columns [begin, end): a block alone has too few loads under way.
  __device__ void prefetch(std::int64_t begin, std::int64_t end) const {
    if constexpr (prefetches) {
      constexpr std::int64_t most = std::int64_t{8} << 20;  // bytes, which the cache does not lose
      constexpr auto size = static_cast<std::int64_t>(sizeof(In));
      constexpr std::int64_t line = 128 / size;
      const std::int64_t stop = end - begin < most / size ? end : begin + most / size;
      for (std::int64_t at = begin + threadIdx.x * line; at < stop; at += blockDim.x * line) {
        prefetch_line(row.x + at);
      }
    }
  }

  __device__ static float sum_of(const float (&m)[block_columns]) {
    return ((m[0] + m[1]) + (m[2] + m[3])) + ((m[4] + m[5]) + (m[6] + m[7]));
  }
  /// Of columns [begin, end). To all of reader_threads threads.
  template <int lanes>
  __device__ near_measure nearly(std::int64_t begin, std::int64_t end,
                                 measure_memory& memory) const {
    constexpr int ahead = 2;
    constexpr int step = reader_threads * block_columns;
    constexpr float log2_e = 1.44269504F;
    const auto scale_2 = static_cast<float>(scale) * log2_e;
    const row_reader<In> part = {row.x, end < row.cols ? end : row.cols, row.in_vectors};
    const auto own_block = static_cast<std::uint32_t>(column / block_columns);
    const float lowest = least();
    auto number = static_cast<std::uint32_t>(begin / block_columns) + threadIdx.x;
    near_measure own = {};
    // Of a thread, whose share of a row 32 bits count.
    std::uint32_t larger_count = 0;
    std::uint32_t equal_before = 0;
    // In f64, or a long row's error would grow with it.
    double larger = 0;
    double whole = 0;
    prefetch(begin, end);
    column_block<In> blocks[ahead];
    part.template load<step>(begin, blocks);
    for (std::int64_t first = begin; first < end;) {
      first += ahead * step;
#pragma unroll
      for (int a = 0; a < ahead; ++a) {
        float masses[block_columns];
        float larger_masses[block_columns];
        std::uint32_t part_equal = 0;
#pragma unroll
        for (int i = 0; i < block_columns; ++i) {
          const float element = blocks[a].element(i);
          const float place = (element - largest_x) * scale_2;
          masses[i] = fast_exp2(element >= lowest ? place : -infinity<float>);
          larger_masses[i] = element > x ? masses[i] : 0.0F;
          larger_count += element > x ? 1U : 0U;
          part_equal += element == x ? 1U : 0U;
        }
        if (first < end) {
          part.template load_one<step>(first, a, blocks[a]);
        }
        larger += static_cast<double>(sum_of(larger_masses));
        whole += static_cast<double>(sum_of(masses));
        // Those of the blocks before the column's.
        equal_before += number + a * reader_threads < own_block ? part_equal : 0;
      }
      number += ahead * reader_threads;
    }
    // And those before it in its own.
    const std::int64_t at = std::int64_t{own_block} * block_columns + threadIdx.x;
    if (at < column && at >= begin && at < end && row.element(at) == x) {
      ++equal_before;
    }
    own.larger_count = larger_count;
    own.equal_before = equal_before;
    own.larger = static_cast<float>(larger);
    own.whole = static_cast<float>(whole);
    near_measure sum = sum_over_block<lanes>(own, memory);
    sum.of_equal = fast_exp2((x - largest_x) * scale_2);
    return sum;
  }
};

/// A row and its race's winner as the filters see them.
template <class In>
__device__ inline row_measure<In> measure_of(const row_reader<In>& row,
                                             const core::sampling::parameters& p, bool joint,
                                             float top, std::int64_t winner) {
  namespace sampling = core::sampling;
  const double scale = sampling::scale_of<float>(p.temperature);
  return {row,
          scale,
          sampling::scaled(scale, static_cast<double>(top)),
          joint ? std::numeric_limits<double>::infinity() : sampling::min_p_depth(p.min_p),
          row.element(winner),
          winner,
          top};
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
