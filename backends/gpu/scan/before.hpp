// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a block of a scan knows of its row before a step: the anchor that exponentials are relative
/// to, and the sums of what comes before the span and of the span so far.
#pragma once

#include <gpu/contract.hpp>
#include <gpu/scan/arithmetic.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// What is seldom needed of what a block knows of its row. It is in shared memory, for each thread
/// by itself, so that nothing has to wait for it.
struct scan_seldom {
  scan_carry given;  ///< of what comes before the span
  float anchor;      ///< the span's
  float correction;  ///< the anchor's
};

/// What a block knows of its row before a step, each thread the same.
struct scan_before {
  scan_seldom& seldom;
  float offset;                     ///< the anchor's
  float least;                      ///< the anchor's
  float top;                        ///< the larger of the anchor and the maximum given
  float factor;                     ///< of the span's exponentials, relative to `top`
  float steps;                      ///< what comes before the step, relative to `top`
  double sum;                       ///< of the span's exponentials so far, as they are
  double given_sum;                 ///< relative to `top`
  scan_arithmetic::near_sums near;  ///< that the warp had last

  __device__ explicit scan_before(scan_seldom& of_thread) : seldom(of_thread) {}

  __device__ void begin_span(const scan_carry& given) {
    const scan_anchor none;
    seldom = {given, none.max, none.correction};
    offset = none.offset;
    least = none.least;
    top = given.max;
    factor = 0;
    steps = static_cast<float>(given.sum);
    sum = 0;
    given_sum = given.sum;
    near = {};
  }
  /// The span so far is `own`.
  __device__ void change(const scan_arithmetic& how, const scan_carry& own) {
    const scan_carry given = seldom.given;
    const scan_anchor anchor = how.anchor_at(own.max);
    seldom.anchor = anchor.max;
    seldom.correction = anchor.correction;
    top = either(own.max > given.max, own.max, given.max);
    offset = top == infinity<float> ? top : anchor.offset;
    least = top == infinity<float> ? top : anchor.least;
    factor = static_cast<float>(how.wide_ratio(own.max, top)) * anchor.correction;
    sum = own.sum == 0 ? 0 : own.sum / static_cast<double>(anchor.correction);
    given_sum = given.sum * how.wide_ratio(given.max, top);
    near = {};
    look_at_sum();
  }
  [[nodiscard]] __device__ bool has_anchor() const { return least < infinity<float>; }
  /// The same of the usual kind.
  [[nodiscard]] __device__ bool has_offset() const { return offset < infinity<float>; }
  [[nodiscard]] __device__ bool has_elements() const { return seldom.anchor > -infinity<float>; }
  [[nodiscard]] __device__ scan_anchor anchor() const {
    return {seldom.anchor, seldom.correction, offset, least};
  }
  /// A step has that sum of exponentials.
  __device__ void add(float step) {
    sum += static_cast<double>(step);
    look_at_sum();
  }
  [[nodiscard]] __device__ scan_carry own() const {
    const float max = seldom.anchor;
    return {max, max, sum * static_cast<double>(seldom.correction)};
  }
  [[nodiscard]] __device__ scan_carry all(const scan_arithmetic& how) const {
    return how.combine(seldom.given, own());
  }
  /// What comes before a warp, the step's other warps having that sum of exponentials. What comes
  /// before the span may be far below the anchor, as elements before it may.
  [[nodiscard]] __device__ scan_part part_until(const scan_arithmetic& how, float warps) const {
    const scan_part before_step =
        sum == 0 ? scan_part{seldom.given.max, static_cast<float>(seldom.given.sum)}
                 : scan_part{top, steps};
    return warps == 0 ? before_step
                      : how.combine(before_step, {seldom.anchor, warps * seldom.correction});
  }

 private:
  __device__ void look_at_sum() {
    steps = static_cast<float>(fma(sum, static_cast<double>(factor), given_sum));
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
