// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tiles whose logsumexps a scan's loop does not make: those whose sums are small or rise fast, and
/// those whose exponentials relative to one anchor will not do, which are scanned by states
/// relative to lanes' own maxima, or one by one where even these will not do. The tile's elements
/// are read once more, so that no value is kept for this.
#pragma once

#include <gpu/contract.hpp>
#include <gpu/group/combine.hpp>
#include <gpu/scan/arithmetic.hpp>
#include <gpu/scan/row_pass.hpp>

#include <core/scan_state.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// logs of elements x relative to the maximum so far, and infinities and NaN by the state that is
/// for all elements.
template <int count>
__device__ inline void scan_one_by_one(const scan_arithmetic& how, const float (&x)[count],
                                       scan_part so_far, bool are_ordinary, float (&logs)[count]) {
  using monoid = core::scan_monoid<float>;
  auto state = how.state_of(so_far.max, static_cast<double>(so_far.sum));
#pragma unroll 1
  for (int k = 0; k < count; ++k) {
    float v = x[0];  // registers have no index
#pragma unroll
    for (int i = 1; i < count; ++i) {
      v = either(k == i, x[i], v);
    }
    float lse = -infinity<float>;
    if (are_ordinary) {
      so_far = how.combine(so_far, {v, v == -infinity<float> ? 0.0F : 1.0F});
      if (so_far.max > -infinity<float>) {
        lse = how.logsumexp(so_far.max, so_far.sum);
      }
    } else {
      auto one = how.state_of(v, 1);
      if (v != v) {
        one = core::scan_state<float>::of_nan();
      }
      state = monoid::combine(state, one);
      lse = state.logsumexp();
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
      logs[i] = either(k == i, lse, logs[i]);
    }
  }
}

/// A lane's logsumexps in a tile.
template <int width>
struct scan_logs {
  float at[width];
};

/// The same, and what the tile is.
template <int width>
struct scan_of_tile {
  scan_logs<width> logs;
  scan_part whole;
};

/// By states. before: of what comes before the tile.
template <int lanes, class Pass>
SOFTFOLD_OUT_OF_LINE __device__ scan_of_tile<Pass::width> scan_tile_singly(
    const scan_arithmetic how, const Pass pass, int t, const scan_part before_tile) {
  constexpr int width = Pass::width;
  scan_of_tile<width> result{};
  float x[width];
  float e[width];
  pass.tile_again(t, how, x);
  const scan_part own = how.part_of(x, scan_maximum(x), e);
  auto lane = static_cast<int>(threadIdx.x) % lanes;
  forget_origin(lane);  // comparisons with it are made anew each time
  scan_part sum = own;
#pragma unroll
  for (int distance = 1; distance < lanes; distance *= 2) {
    const scan_part other = {shuffle(sum.max, lane - distance), shuffle(sum.sum, lane - distance)};
    if (lane >= distance) {
      sum = how.combine(other, sum);
    }
  }
  const scan_part others = {shuffle(sum.max, lane - 1), shuffle(sum.sum, lane - 1)};
  result.whole = {shuffle(sum.max, lanes - 1), shuffle(sum.sum, lanes - 1)};
  const scan_part before = lane == 0 ? before_tile : how.combine(before_tile, others);
  const bool are_ordinary = own.max < infinity<float> && before.max < infinity<float>;
  const float top = fmaxf(before.max, own.max);
  const float factor = how.ratio(own.max, top);
  float so_far = fmaf(e[0], factor, before.sum * how.ratio(before.max, top));
  if (!(are_ordinary && so_far > scan_least_of_lane)) {
    scan_one_by_one(how, x, before, are_ordinary, result.logs.at);
    return result;
  }
#pragma unroll
  for (int k = 0; k < width; ++k) {
    result.logs.at[k] = how.logsumexp(top, so_far);
    if (k + 1 < width) {
      so_far = fmaf(e[k + 1], factor, so_far);
    }
  }
  return result;
}

/// A warp's elements by states; returns the part that they are.
template <int lanes, class Pass>
__device__ inline scan_part scan_singly(const scan_arithmetic& how, const Pass& pass,
                                        scan_part before, float (&logs)[Pass::each]) {
  scan_part whole;
#pragma unroll
  for (int t = 0; t < Pass::tiles; ++t) {
    const auto tile = scan_tile_singly<lanes>(how, pass, t, before);
    before = how.combine(before, tile.whole);
    whole = how.combine(whole, tile.whole);
#pragma unroll
    for (int k = 0; k < Pass::width; ++k) {
      logs[t * Pass::width + k] = tile.logs.at[k];
    }
  }
  return whole;
}

/// What sums of exponentials are relative to, and what a tile's are added to.
struct scan_tile_sums {
  scan_anchor anchor;
  float top;
  float factor;  ///< of the exponentials, relative to `top`
  float before;  ///< the same
  /// Sums may be far below the anchor, but not 0, as those of a row's first elements often are.
  bool are_first;
};

/// By sums relative to an anchor, whatever their range.
template <int lanes, class Pass>
SOFTFOLD_OUT_OF_LINE __device__ scan_logs<Pass::width> scan_tile_far(const scan_arithmetic how,
                                                                     const Pass pass, int t,
                                                                     const scan_tile_sums sums) {
  constexpr int width = Pass::width;
  scan_logs<width> result{};
  float x[width];
  pass.tile_again(t, how, x);
  float factor = sums.factor;
  if (sums.are_first) {
    factor = 1;
#pragma unroll
    for (int k = 0; k < width; ++k) {
      x[k] = how.exponential(x[k], sums.anchor.max);
    }
  } else {
    how.exponentials(sums.anchor, x);
  }
  float own[] = {0};
#pragma unroll
  for (int k = 0; k < width; ++k) {
    own[0] += x[k];
  }
  sum_up_to_lane<lanes>(own);
  add_of_lane_below<lanes>(x[0], own[0], 1);
  float sum = sums.before;
#pragma unroll
  for (int k = 0; k < width; ++k) {
    sum = fmaf(x[k], factor, sum);
    result.at[k] = how.template logsumexp<typename Pass::output>(sums.top, sum);
  }
  return result;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
