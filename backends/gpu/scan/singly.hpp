// SPDX-License-Identifier: Apache-2.0
/// \file
/// The scan of a warp's elements where sums of f32 exponentials relative to one anchor will not do:
/// more exactly, relative to lanes' own maxima, and one by one where even these will not.
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
__device__ inline void scan_one_by_one(const scan_arithmetic& how, const float (&x)[scan_each],
                                       scan_part so_far, bool are_ordinary,
                                       float (&logs)[scan_each]) {
  using monoid = core::scan_monoid<float>;
  auto state = how.state_of(so_far.max, static_cast<double>(so_far.sum));
#pragma unroll 1
  for (int k = 0; k < scan_each; ++k) {
    float v = x[0];  // registers have no index
#pragma unroll
    for (int i = 1; i < scan_each; ++i) {
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
    for (int i = 0; i < scan_each; ++i) {
      logs[i] = either(k == i, lse, logs[i]);
    }
  }
}

/// What is known of a warp's elements of which each lane has some one after the other.
struct scan_of_warp {
  scan_results logs;
  scan_part whole;
};

/// warps_before: what comes before the warp.
template <int lanes, class Pass>
SOFTFOLD_OUT_OF_LINE __device__ scan_of_warp scan_singly(const scan_arithmetic how, const Pass pass,
                                                         const scan_part warps_before) {
  scan_of_warp result{};
  float x[scan_each];
  float e[scan_each];
  pass.load_singly(x);
  how.prepare(x);
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
  const scan_part before = lane == 0 ? warps_before : how.combine(warps_before, others);
  const bool are_ordinary = own.max < infinity<float> && before.max < infinity<float>;
  const float top = fmaxf(before.max, own.max);
  const float factor = how.ratio(own.max, top);
  float so_far = fmaf(e[0], factor, before.sum * how.ratio(before.max, top));
  if (!(are_ordinary && so_far > scan_least_of_lane)) {
    scan_one_by_one(how, x, before, are_ordinary, result.logs.at);
    return result;
  }
#pragma unroll
  for (int k = 0; k < scan_each; ++k) {
    result.logs.at[k] = how.logsumexp(top, so_far);
    if (k + 1 < scan_each) {
      so_far = fmaf(e[k + 1], factor, so_far);
    }
  }
  return result;
}

/// The results of a warp's first tile, whose sums may be far below the anchor, but not 0, as those
/// of a row's first elements often are.
template <int lanes, class Pass>
SOFTFOLD_OUT_OF_LINE __device__ scan_results scan_first_tile(const scan_arithmetic how,
                                                             const Pass pass, float anchor,
                                                             float steps_before) {
  constexpr int width = Pass::width;
  scan_results results{};
  float x[scan_each];
  Pass::elements(pass.load(), x);
  how.prepare(x);
  float e[width];
  float own[] = {0};
#pragma unroll
  for (int k = 0; k < width; ++k) {
    e[k] = how.exponential(x[k], anchor);
    own[0] += e[k];
  }
  sum_up_to_lane<lanes>(own);
  const float others = shuffle(own[0], pass.lane - 1);
  float sum = pass.lane > 0 ? steps_before + others : steps_before;
#pragma unroll
  for (int k = 0; k < width; ++k) {
    sum += e[k];
    const auto logs = how.near(anchor, sum);
    results.at[k] = logs.logsumexp(sum * logs.unit);
  }
  return results;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
