// SPDX-License-Identifier: Apache-2.0
/// \file
/// Sums over a block in whatever order: of integers, which are exact, and of floats, which are not.
#pragma once

#include <gpu/group/combine.hpp>

#include <core/sampling.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Beside other threads that do.
__device__ inline void add_to(core::sampling::mass& to, const core::sampling::mass& own) {
  using word = unsigned long long;  // what the languages call 64 bits
  const word before = atomicAdd(reinterpret_cast<word*>(&to.low), word{own.low});
  const word high = own.high + (before + own.low < before ? 1U : 0U);
  if (high != 0) {
    atomicAdd(reinterpret_cast<word*>(&to.high), high);
  }
}
__device__ inline void add_to(std::int64_t& to, std::int64_t own) {
  using word = unsigned long long;
  atomicAdd(reinterpret_cast<word*>(&to), static_cast<word>(own));
}

/// The sum of a warp's lanes' numbers, to all of them: where one instruction adds 32 bits up, by
/// digits of which so many have no more.
template <int lanes>
__device__ inline core::sampling::mass sum_over_warp(core::sampling::mass own) {
  if constexpr (!has_max_over_warp) {
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      own.add({shuffle_xor(own.low, distance), shuffle_xor(own.high, distance)});
    }
    return own;
  }
  constexpr std::uint32_t mask = (1U << 26) - 1;
  const auto digit = [&](std::uint64_t of) {
    return std::uint64_t{sum_over_warp<lanes>(static_cast<std::uint32_t>(of) & mask)};
  };
  const std::uint64_t third = digit(own.low >> 52 | own.high << 12);
  core::sampling::mass sum = {digit(own.low), third >> 12};
  sum.add(core::sampling::mass{third << 52, 0});
  const std::uint64_t second = digit(own.low >> 26);
  sum.add(core::sampling::mass{second << 26, second >> 38});
  if (ballot(own.high >> 14 != 0) != 0) {
    const std::uint64_t fourth = digit(own.high >> 14);
    const std::uint64_t fifth = digit(own.high >> 40);
    sum.high += (fourth << 14) + (fifth << 40);
  }
  return sum;
}
/// The same of numbers whose sum has 64 bits.
template <int lanes>
__device__ inline std::uint64_t sum_over_warp_of(std::uint64_t own) {
  if constexpr (!has_max_over_warp) {
    return sum_over_lanes(own, lanes);
  }
  constexpr int bits = 27;
  constexpr std::uint32_t mask = (1U << bits) - 1;
  const auto digit = [&](std::uint64_t of) {
    return std::uint64_t{sum_over_warp<lanes>(static_cast<std::uint32_t>(of) & mask)};
  };
  return digit(own) + (digit(own >> bits) << bits) + (digit(own >> (2 * bits)) << (2 * bits));
}
template <int lanes>
__device__ inline void add_over_block(const core::sampling::mass& own, core::sampling::mass& to) {
  const core::sampling::mass sum = sum_over_warp<lanes>(own);
  if (threadIdx.x % lanes == 0) {
    add_to(to, sum);
  }
}
template <int lanes, class T>
requires(sizeof(T) == 4) __device__ inline void add_over_block(T own, T& to) {
  own = sum_over_lanes(own, lanes);
  if (threadIdx.x % lanes == 0) {
    atomicAdd(&to, own);
  }
}
template <int lanes>
__device__ inline void add_over_block(std::int64_t own, std::int64_t& to) {
  own = sum_over_lanes(own, lanes);
  if (threadIdx.x % lanes == 0) {
    add_to(to, own);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
