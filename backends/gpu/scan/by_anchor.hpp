// SPDX-License-Identifier: Apache-2.0
/// \file
/// A warp's part of a step by an anchor: sums of exponentials relative to it over lanes and tiles,
/// and their logarithms.
#pragma once

#include <gpu/contract.hpp>
#include <gpu/group/combine.hpp>
#include <gpu/scan/arithmetic.hpp>
#include <gpu/scan/before.hpp>
#include <gpu/scan/singly.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Sums of a warp's exponentials.
template <int lanes, class Pass>
struct scan_sums {
  float own[Pass::tiles];          ///< up to the lane
  float before_tile[Pass::tiles];  ///< of the warp's
  float whole;

  __device__ static scan_sums of(const float (&e)[Pass::each]) {
    scan_sums sums;
    auto& own = sums.own;
#pragma unroll
    for (int t = 0; t < Pass::tiles; ++t) {
      own[t] = e[t * Pass::width];
#pragma unroll
      for (int k = 1; k < Pass::width; ++k) {
        own[t] += e[t * Pass::width + k];
      }
    }
    sum_up_to_lane<lanes>(own);
    sums.whole = 0;
#pragma unroll
    for (int t = 0; t < Pass::tiles; ++t) {
      sums.before_tile[t] = sums.whole;
      sums.whole += shuffle(own[t], lanes - 1);
    }
    return sums;
  }
  /// Adds what the warp has before them to tiles' first exponentials.
  __device__ void add_to_first(float (&e)[Pass::each]) const {
#pragma unroll
    for (int t = 0; t < Pass::tiles; ++t) {
      e[t * Pass::width] += before_tile[t];
      add_of_lane_below<lanes>(e[t * Pass::width], own[t], 1);
    }
  }
};

/// The logsumexps of a warp's elements whose exponentials are relative to the anchor. warps_before:
/// sums of the step's.
template <int lanes, class Pass>
struct scan_by_anchor {
  static constexpr int width = Pass::width;

  const scan_arithmetic& how;
  const Pass& pass;
  scan_before& before;
  const scan_sums<lanes, Pass>& sums;
  int warp;
  float warps_before;
  float least;  ///< what comes before the warp, relative to `top`

  __device__ scan_by_anchor(const scan_arithmetic& how, const Pass& pass, scan_before& before,
                            const scan_sums<lanes, Pass>& sums, int warp, float warps_before)
      : how(how),
        pass(pass),
        before(before),
        sums(sums),
        warp(warp),
        warps_before(warps_before),
        least(fmaf(warps_before, before.factor, before.steps)) {}

  /// Whether all was of the usual kind, and nothing read again.
  __device__ bool compute(const float (&e)[Pass::each], float (&logs)[Pass::each]) {
    const float most = until(sums.whole);
    if (!before.near.hold(least, most)) {
      if (!are_near(least, most)) [[unlikely]] {
        compute_by_tile(e, logs);
        return false;
      }
      before.near = how.near(before.top, least);
    }
#pragma unroll
    for (int t = 0; t < Pass::tiles; ++t) {
      compute_near(before.near, t, e, logs);
    }
    return true;
  }

 private:
  /// What comes before an element of the warp, that much of the warp being before it.
  [[nodiscard]] __device__ float until(float of_warp) const {
    return fmaf(of_warp, before.factor, least);
  }
  /// Whether sums are within a factor of 3.5, and not too small.
  [[nodiscard]] __device__ bool are_near(float from, float to) const {
    return from > before.least && to < 3.5F * from && to < 0x1p126F;
  }
  __device__ void compute_near(const scan_arithmetic::near_sums& near, int t,
                               const float (&e)[Pass::each], float (&logs)[Pass::each]) const {
    const float factor = before.factor * near.unit;
    float sum = least * near.unit;
#pragma unroll
    for (int k = 0; k < width; ++k) {
      sum = fmaf(e[t * width + k], factor, sum);
      logs[t * width + k] = near.template logsumexp<typename Pass::output>(sum);
    }
  }
  __device__ void compute_by_tile(const float (&e)[Pass::each], float (&logs)[Pass::each]) const {
    bool singly = false;
#pragma unroll
    for (int t = 0; t < Pass::tiles; ++t) {
      const float from = until(sums.before_tile[t]);
      const float to = until(t + 1 < Pass::tiles ? sums.before_tile[t + 1] : sums.whole);
      if (are_near(from, to)) {
        compute_near(how.near(before.top, from), t, e, logs);
      } else {
        const float until_first = until(shuffle(e[t * width], 0));
        const bool are_first = t == 0 && warp == 0 && !(until_first > before.least) &&
                               before.top == before.seldom.anchor;
        singly = singly || !(until_first > (are_first ? scan_least_exact : before.least));
        if (!singly) {
          const auto far = scan_tile_far<lanes>(
              how, pass, t, {before.anchor(), before.top, before.factor, from, are_first});
#pragma unroll
          for (int k = 0; k < width; ++k) {
            logs[t * width + k] = far.at[k];
          }
        }
      }
    }
    if (singly) {
      static_cast<void>(scan_singly<lanes>(how, pass, before.part_until(how, warps_before), logs));
    }
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
