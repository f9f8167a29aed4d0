// SPDX-License-Identifier: Apache-2.0
/// \file
/// What totals are made of: the largest element of a part of a row, not yet scaled, and
/// core/reproducible.hpp's exact sum of its terms. Parts combine in any order to the same bits.
#pragma once

#include <gpu/group/combine.hpp>
#include <gpu/group/integers.hpp>

#include <core/monoid.hpp>
#include <core/reproducible.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class A>
struct part_total {
  A largest = -infinity<A>;  ///< in the order of scaled elements; NaN if there is one
  core::reproducible::exact_sum<A> sum;
};

/// Of rows of f32 arithmetic with a scale above 0.
using total_state = part_total<float>;

struct total_monoid {
  using value_type = total_state;

  __device__ static value_type identity() { return {}; }
  __device__ static value_type combine(value_type a, const value_type& b) {
    a.largest = max_or_nan(a.largest, b.largest);
    a.sum.add(b.sum);
    return a;
  }
};

static_assert(core::monoid<total_monoid>);

/// Over groups of `lanes` lanes.
__device__ inline std::int32_t highest_over_lanes(std::int32_t value, int lanes) {
  for (int mask = lanes / 2; mask > 0; mask /= 2) {
    const std::int32_t other = shuffle_xor(value, mask);
    value = value < other ? other : value;
  }
  return value;
}

/// The sum of a warp's lanes' sums, to all of them.
template <int lanes, class A>
__device__ inline core::reproducible::exact_sum<A> sum_over_warp(
    core::reproducible::exact_sum<A> own) {
  using sum = core::reproducible::exact_sum<A>;
  const auto top = static_cast<std::uint32_t>(own.top - sum::lowest_top);
  own.raise(static_cast<std::int32_t>(max_over_warp<lanes>(top)) + sum::lowest_top);
#pragma unroll
  for (int i = 0; i < sum::words_of; ++i) {
    own.words[i] = sum_over_warp<lanes>(own.words[i]);
  }
  return own;
}

/// See combine.hpp. A whole warp adds by the instructions for it.
template <class Each>
__device__ inline total_state combine_over_lanes(int members, const total_monoid&,
                                                 const Each& each) {
  total_state own;
  each([&](const total_state& s) { own = total_monoid::combine(own, s); });
  own.largest = largest_over_lanes(own.largest, members);
  constexpr int all = 32;  // see largest_over_lanes
  if (has_max_over_warp && members == all) {
    own.sum = sum_over_warp<all>(own.sum);
    return own;
  }
  own.sum.raise(highest_over_lanes(own.sum.top, members));
  for (int mask = members / 2; mask > 0; mask /= 2) {
#pragma unroll
    for (int i = 0; i < own.sum.words_of; ++i) {
      core::sampling::mass& word = own.sum.words[i];
      word.add(core::sampling::mass{shuffle_xor(word.low, mask), shuffle_xor(word.high, mask)});
    }
  }
  return own;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
