// SPDX-License-Identifier: Apache-2.0
/// \file
/// The narrow ranges of values in which a part of a row has its best runners, and in which it
/// counts its elements; sums of these counts.
#pragma once

#include <gpu/group/combine.hpp>
#include <gpu/row/block16.hpp>
#include <gpu/row/row_reader.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The scaled logits from `low` on, in units of log 2, in bins that have a best runner each, and in
/// counters of elements.
struct stair_window {
  static constexpr int octaves = 32;
  /// Of these at least so many are above the largest element that is known when the window is
  /// chosen.
  static constexpr int headroom = 6;
  static constexpr int bins = 256;
  static constexpr int most_counters = 2048;
  /// Those for so many draws of rows: what more of them cost is more than a short row takes to be
  /// read again, or than is gained where few draws need it.
  static constexpr int counters_of(std::int64_t draws, std::int64_t columns) {
    return draws < 4 || columns < 32768 ? reader_threads : most_counters;
  }
  /// Of the distance of two places, in octaves, generously, while elements are not further from 0
  /// than `most`.
  static constexpr float error = 0x1p-12F;
  static constexpr float most = 0x1p13F;

  float low;  ///< an integer; -infinity: no element

  __device__ static stair_window below(float largest_2) {
    return {ceilf(largest_2) - static_cast<float>(octaves - headroom)};
  }
  /// What is nearest to a quarter of a bin counts to it. The lowest bin has what is below it, and
  /// bin number `bins` what is above all. So it is with counters.
  static constexpr float begin_of_first = -0.125F;  ///< of the first bin, in bins
  struct places {
    float scale;
    float offset;

    [[nodiscard]] __device__ std::uint32_t bin(float x) const { return counter(x, bins); }
    /// Of so many.
    [[nodiscard]] __device__ std::uint32_t counter(float x, float counters) const {
      const float share = saturated_fma(x, scale, offset);
      return __float_as_uint(fmaf(share, 4 * counters, 0x1p23F)) >> 2 & (2 * most_counters - 1);
    }
  };
  /// Of elements that this scale brings to units of log 2.
  [[nodiscard]] __device__ places of_scale(float scale_2) const {
    return {scale_2 * (1.0F / octaves), low * (-1.0F / octaves)};
  }
};

/// The elements of a part's counters from one on: their number, and what their mass is at least if
/// the mass at the window's low end is 1. What is below the window has none.
struct counted_sum {
  std::uint32_t count;
  float least;
};

/// Between a thread's registers and shared memory, four at a time if there are so many.
template <int count>
__device__ inline void load_words(const void* shared, std::uint32_t (&to)[count]) {
  if constexpr (count % 4 == 0) {
#pragma unroll
    for (int i = 0; i < count; i += 4) {
      const block16 four = static_cast<const block16*>(shared)[i / 4];
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        to[i + w] = four.words[w];
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      to[i] = static_cast<const std::uint32_t*>(shared)[i];
    }
  }
}
template <int count>
__device__ inline void store_words(const std::uint32_t (&from)[count], void* shared) {
  if constexpr (count % 4 == 0) {
#pragma unroll
    for (int i = 0; i < count; i += 4) {
      static_cast<block16*>(shared)[i / 4] = {{from[i], from[i + 1], from[i + 2], from[i + 3]}};
    }
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      static_cast<std::uint32_t*>(shared)[i] = from[i];
    }
  }
}

/// Each thread adds up neighbouring counters, the first thread the last of them. `memory` has
/// `counted`, the counters, room for `least`, their masses, and for what warps have.
template <int lanes, int each, class Memory>
__device__ inline void add_up_counters(Memory& memory, counted_sum* sums) {
  const auto thread = static_cast<int>(threadIdx.x);
  const int first = (reader_threads - 1 - thread) * each;
  constexpr float octaves =
      static_cast<float>(stair_window::octaves) / static_cast<float>(each * reader_threads);
  std::uint32_t count[each];
  float least[each];
  std::uint32_t least_words[each];
  load_words(memory.counted + first, count);
#pragma unroll
  for (int i = each - 1; i >= 0; --i) {
    const float begin = (static_cast<float>(first + i) + stair_window::begin_of_first) * octaves;
    least[i] = begin > 0 ? static_cast<float>(count[i]) * fast_exp2(begin) : 0.0F;
    if (i < each - 1) {
      count[i] += count[i + 1];
      least[i] += least[i + 1];
    }
  }
  std::uint32_t count_up_to[] = {count[0]};
  float least_up_to[] = {least[0]};
  sum_up_to_lane<lanes>(count_up_to);
  sum_up_to_lane<lanes>(least_up_to);
  if (thread % lanes == lanes - 1) {
    memory.top_of_warps[thread / lanes] = count_up_to[0];
    memory.least_of_warps[thread / lanes] = least_up_to[0];
  }
  counted_sum behind = {0, 0};  // what the threads before have
  add_of_lane_below<lanes>(behind.count, count_up_to[0], 1);
  add_of_lane_below<lanes>(behind.least, least_up_to[0], 1);
  __syncthreads();
  for (int w = 0; w < thread / lanes; ++w) {
    behind.count += memory.top_of_warps[w];
    behind.least += memory.least_of_warps[w];
  }
#pragma unroll
  for (int i = 0; i < each; ++i) {
    count[i] += behind.count;
    least_words[i] = __float_as_uint(least[i] + behind.least);
  }
  store_words(count, memory.counted + first);
  store_words(least_words, memory.least + first);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const int at = i * reader_threads + thread;
    sums[at] = {memory.counted[at], memory.least[at]};
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
