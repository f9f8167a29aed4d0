// SPDX-License-Identifier: Apache-2.0
/// \file
/// The device language for kernels with wavefronts of 32 or 64 lanes; see gpu/contract.hpp.
#pragma once

#ifdef SOFTFOLD_HIP_ON_HOST
#include "host/lanes.hpp"
#else
#include "amdgpu.hpp"
#endif

#include <core/topk.hpp>
#include <softfold/config.hpp>
#include <softfold/dtype.hpp>

#include <cstdint>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Calls body with the number of lanes of the device's wavefronts as a compile-time constant. The
/// number comes from the runtime: the host's part of a program has none of its own.
template <class Body>
void with_lanes(int lanes, Body&& body) {
  if (lanes == 32) {
    body(std::integral_constant<int, 32>());
  } else {
    body(std::integral_constant<int, 64>());
  }
}

/// Whether short rows are put together in shared memory before they are written. AMD's caches merge
/// parts of a line by a mask of its bytes; on the processor the kernels are tested.
#ifdef SOFTFOLD_HIP_ON_HOST
inline constexpr bool stages_rows = true;
#else
inline constexpr bool stages_rows = false;
#endif

/// The largest and the least value of a wavefront's lanes, by log2(lanes) shuffles.
inline constexpr bool has_max_over_warp = false;
template <int lanes>
__device__ inline std::uint32_t max_over_warp(std::uint32_t value) {
  for (int mask = lanes / 2; mask > 0; mask /= 2) {
    const std::uint32_t other = shuffle_xor(value, mask);
    value = other > value ? other : value;
  }
  return value;
}
template <int lanes>
__device__ inline std::uint32_t min_over_warp(std::uint32_t value) {
  return ~max_over_warp<lanes>(~value);
}

template <int lanes>
__device__ inline std::uint32_t sum_over_warp(std::uint32_t value) {
  for (int mask = lanes / 2; mask > 0; mask /= 2) {
    value += shuffle_xor(value, mask);
  }
  return value;
}

/// Of four bits: 0xffff if bit 2 w is set, 0xffff0000 if bit 2 w + 1 is.
__device__ inline std::uint32_t pair_mask(std::uint32_t four, int w) {
  const std::uint32_t pair = four >> 2 * w & 3U;
  return ((pair | pair << 15) & 0x10001U) * 0xffffU;
}

/// Blocks do not ask for what later ones will read: not measured here.
inline constexpr bool prefetches = false;
__device__ inline void prefetch_line(const void*) {}
inline constexpr bool copies_ahead = false;
__device__ inline void copy_ahead(block16* shared, const block16* from) {
  *shared = load_vector<true>(from);
}
__device__ inline void wait_for_copies() {}
__device__ inline int multiprocessors() { return 0; }

/// Launches follow each other.
__device__ inline void let_next_begin() {}
__device__ inline void wait_for_launch_before() {}

/// Half as many wavefronts would have the registers of 16.
inline constexpr int vectors_under_way = 8;

/// The second argument of launch bounds, which in HIP counts wavefronts on a SIMD: as few as there
/// may be, as AMD's compiler weighs registers against wavefronts itself.
constexpr int least_resident(int /*blocks*/) { return 1; }

/// Before functions that are called seldom. A call would need a stack.
#define SOFTFOLD_OUT_OF_LINE

/// A bit for each lane.
using lane_mask = std::uint64_t;
__device__ inline int count(lane_mask lanes) { return __builtin_popcountll(lanes); }
__device__ inline int count_bits(unsigned bits) { return __builtin_popcount(bits); }
__device__ inline int lowest_bit(unsigned bits) { return __builtin_ctz(bits); }
/// The lanes below the caller's.
__device__ inline lane_mask lanes_below() { return (lane_mask{1} << lane_number()) - 1; }
__device__ inline int leading_zeros(std::uint64_t x) { return x == 0 ? 64 : __builtin_clzll(x); }

__device__ inline std::uint32_t order_key(float x) { return core::order_key(x); }
__device__ inline std::uint64_t order_key(double x) { return core::order_key(x); }

/// Two 16-bit elements as numbers in the order of their keys, in a word.
template <class In>
__device__ inline std::uint32_t order_keys_of_pair(std::uint32_t pair) {
  constexpr std::uint32_t infinity = std::is_same_v<In, half> ? 0x7c00 : 0x7f80;
  const auto key = [](std::uint32_t x) {
    const std::uint32_t magnitude = x & 0x7fffU;
    x = magnitude == 0 ? 0 : magnitude > infinity ? 0x7fffU : x;
    return (x & 0x8000U) != 0 ? ~x & 0xffffU : x | 0x8000U;
  };
  return key(pair & 0xffffU) | key(pair >> 16) << 16;
}

/// The larger; NaN if one is NaN. The hardware's own maximum would give the other one.
__device__ inline float max_or_nan(float a, float b) { return a > b || a != a ? a : b; }
__device__ inline double max_or_nan(double a, double b) { return a > b || a != a ? a : b; }
/// The smaller; NaN if one is NaN.
__device__ inline float min_or_nan(float a, float b) { return a < b || a != a ? a : b; }
__device__ inline double min_or_nan(double a, double b) { return a < b || a != a ? a : b; }

/// a b + c, between 0 and 1.
__device__ inline float saturated_fma(float a, float b, float c) {
  return fminf(fmaxf(fmaf(a, b, c), 0.0F), 1.0F);
}

__device__ inline float to_float(bfloat16 x) { return static_cast<float>(x); }
/// Rounded to nearest even, in the upper half; of a NaN, some NaN.
__device__ inline std::uint32_t rounded_to_bfloat16(float x) {
  const std::uint32_t bits = __float_as_uint(x);
  return x != x ? bits | 0x400000U : bits + 0x7fffU + (bits >> 16 & 1U);
}
/// Two at once, the first in the low half.
__device__ inline std::uint32_t to_half_pair(float low, float high) {
  return std::uint32_t{to_half(low).bits} | std::uint32_t{to_half(high).bits} << 16;
}
__device__ inline std::uint32_t to_bfloat16_pair(float low, float high) {
  return rounded_to_bfloat16(low) >> 16 | (rounded_to_bfloat16(high) & 0xffff0000U);
}

/// The larger halves of two pairs of 16-bit elements; NaN if one is NaN.
template <class In>
__device__ inline std::uint32_t max_of_pairs(std::uint32_t a, std::uint32_t b) {
  const auto larger = [](std::uint32_t x, std::uint32_t y) {
    const float as_float = to_float(In::from_bits(static_cast<std::uint16_t>(x)));
    const bool first =
        as_float > to_float(In::from_bits(static_cast<std::uint16_t>(y))) || as_float != as_float;
    return first ? x : y;
  };
  return larger(a & 0xffffU, b & 0xffffU) | larger(a >> 16, b >> 16) << 16;
}

/// Of 32-bit integers.
__device__ inline std::uint64_t wide_product(std::uint32_t a, std::uint32_t b) {
  return std::uint64_t{a} * b;
}

/// Adds a * b to sums[0] if x >= least[0], to sums[1] if x >= least[1], to sums[2] if least[2] <=
/// x < least[1].
__device__ inline void add_product_where(std::uint64_t (&sums)[3], float x, const float (&least)[3],
                                         std::uint32_t a, std::uint32_t b) {
  const std::uint64_t product = wide_product(a, b);
  sums[0] += x >= least[0] ? product : 0;
  sums[1] += x >= least[1] ? product : 0;
  sums[2] += x >= least[2] && x < least[1] ? product : 0;
}

__device__ inline std::uint32_t half_above(std::uint32_t pair, int i, std::uint32_t low) {
  return (i == 0 ? pair << 16 : pair & 0xffff0000U) | (low & 0xffffU);
}

__device__ inline std::uint32_t other_of(std::uint32_t a, std::uint32_t b, std::uint32_t one) {
  return a + b - one;
}

/// The smaller halves of two pairs of 16-bit integers.
__device__ inline std::uint32_t min_of_pairs(std::uint32_t a, std::uint32_t b) {
  const std::uint32_t low = (a & 0xffffU) < (b & 0xffffU) ? a & 0xffffU : b & 0xffffU;
  const std::uint32_t high = a >> 16 < b >> 16 ? a >> 16 : b >> 16;
  return low | high << 16;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
