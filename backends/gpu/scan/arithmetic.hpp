// SPDX-License-Identifier: Apache-2.0
/// \file
/// The arithmetic of a block's scan. Within a step sums are f32, relative to an anchor that is not
/// scaled; what comes before a step has an f64 sum, since steps are many.
#pragma once

#include <gpu/contract.hpp>
#include <gpu/state/exponential.hpp>
#include <gpu/state/scaling.hpp>

#include <core/scan_state.hpp>
#include <core/two_sum.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Elements of a thread in a step; conditions of more than 8 have no room in AMD GPUs' scalar
/// registers.
constexpr int scan_each = has_max_over_warp ? 16 : 8;
constexpr int scan_step = 2048;
constexpr int scan_threads = scan_step / scan_each;
constexpr int scan_span = 8 * scan_step;  ///< columns whose carry is summed by itself

/// Far below the anchor an exponential's relative error is large: |t| u and more. Sums of such
/// elements alone, of as many as a lane or a warp has, are made otherwise, and an anchor is given
/// up for an element far above it.
constexpr float scan_least_of_lane = 0x1p-6F;
constexpr float scan_least_of_warp = 0x1p-3F;
/// From here on what exponentials lack below 2^-126 does not show.
constexpr float scan_least_exact = 0x1p-92F;
constexpr float scan_most_above = 0x1p6F;

__device__ inline bool is_finite(float x) { return x > -infinity<float> && x < infinity<float>; }

/// a or b. By value: the conditional operator's variables would have to be in memory.
__device__ inline float either(bool first, float a, float b) { return first ? a : b; }

/// The elements' maximum, mapped but not scaled, and the sum of the exponentials relative to it. A
/// NaN among them is a maximum of +infinity and a sum of NaN.
struct scan_part {
  float max = -infinity<float>;
  float sum = 0;
};

/// What comes before a step.
struct scan_carry {
  float max = -infinity<float>;      ///< what the sum is relative to
  float largest = -infinity<float>;  ///< the elements' maximum, where a public state is wanted
  double sum = 0;
};

/// The largest of x, or NaN.
__device__ inline float scan_maximum(const float (&x)[scan_each]) {
  float max = -infinity<float>;
#pragma unroll
  for (int k = 0; k < scan_each; ++k) {
    max = max_or_nan(max, x[k]);
  }
  return max;
}

/// exp(scale (v - max)) in f64.
SOFTFOLD_OUT_OF_LINE __device__ inline double wide_exp(float scale, float v, float max) {
  return exp(static_cast<double>(scale) * (static_cast<double>(v) - static_cast<double>(max)));
}

struct scan_arithmetic {
  static constexpr float ln2 = 0x1.62e430p-1F;

  float scale;        ///< above 0
  float scale_2;      ///< times log2 e
  float scale_2_low;  ///< what that lost
  bool low_matters;   ///< as it does not of a scale of 1
  element_map map;

  static scan_arithmetic of(double scale) {
    const scaling how = scaling::of(scale);
    const double scale_2 = how.factor * 1.4426950408889634;
    auto rounded = static_cast<float>(scale_2);
    if (rounded > scale_2) {  // with both of one sign, -infinity stays what it is
      rounded = std::nextafter(rounded, 0.0F);
    }
    const auto low = static_cast<float>(scale_2 - rounded);
    const bool low_matters = low > rounded * 0x1p-26F;
    return {static_cast<float>(how.factor), rounded, low, low_matters, how.map};
  }

  /// Elements before they are scaled; infinite if their products are.
  __device__ void prepare(float (&x)[scan_each]) const {
    if (map == element_map::none && scale <= 1) {
      return;
    }
#pragma unroll
    for (int k = 0; k < scan_each; ++k) {
      const float v = mapped(x[k], map);
      const float product = v * scale;
      x[k] = product == infinity<float> || product == -infinity<float> ? product : v;
    }
  }
  /// exp(s (v - max)) for v <= max; 1 where they are equal, infinite ones too.
  [[nodiscard]] __device__ float ratio(float v, float max) const {
    return v == max ? 1.0F : exponential(v, max);
  }
  [[nodiscard]] __device__ scan_part combine(const scan_part& a, const scan_part& b) const {
    const bool b_is_larger = b.max > a.max;
    const float less = ratio(either(b_is_larger, a.max, b.max), either(b_is_larger, b.max, a.max));
    return {either(b_is_larger, b.max, a.max),
            fmaf(either(b_is_larger, a.sum, b.sum), less, either(b_is_larger, b.sum, a.sum))};
  }
  /// The same by f64, for sums of many elements.
  [[nodiscard]] __device__ double wide_ratio(float v, float max) const {
    return v == max ? 1.0 : (v == -infinity<float> ? 0.0 : wide_exp(scale, v, max));
  }
  [[nodiscard]] __device__ scan_carry combine(const scan_carry& a, const scan_carry& b) const {
    const float max = either(b.max > a.max, b.max, a.max);
    return {max, fmaxf(a.largest, b.largest),
            a.sum * wide_ratio(a.max, max) + b.sum * wide_ratio(b.max, max)};
  }

  /// Exponentials of elements relative to `max`, which none is above; returns their sum.
  [[nodiscard]] __device__ float exponentials(const float (&x)[scan_each], float max,
                                              float (&e)[scan_each]) const {
    const float anchor = max == -infinity<float> ? 0 : max;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < scan_each; ++k) {
      e[k] = x[k] - anchor;
    }
    if (low_matters) {
#pragma unroll
      for (int k = 0; k < scan_each; ++k) {
        e[k] = fast_exp2(fmaf(e[k], scale_2, e[k] * scale_2_low));
      }
    } else {
#pragma unroll
      for (int k = 0; k < scan_each; ++k) {
        e[k] = fast_exp2(e[k] * scale_2);
      }
    }
#pragma unroll
    for (int k = 0; k < scan_each; ++k) {
      sum += e[k];
    }
    return sum;
  }
  /// One of an element that may be far below `max`, without what differences and products lose.
  [[nodiscard]] __device__ float exponential(float x, float max) const {
    const auto difference = core::two_sum<float>::of(x, -max);
    const float product = difference.value * scale_2;
    const float low = fmaf(difference.value, scale_2, -product) +
                      fmaf(difference.value, scale_2_low, difference.lost * scale_2);
    const float e = fast_exp2(product);
    return e > 0 ? fmaf(e, low * ln2, e) : 0.0F;  // else `low` may be infinite or NaN
  }
  /// The same relative to their maximum, and the part that they are.
  [[nodiscard]] __device__ scan_part part_of(const float (&x)[scan_each], float max,
                                             float (&e)[scan_each]) const {
    const float sum = exponentials(x, max, e);
    if (is_finite(max)) {
      return {max, sum};
    }
    return max == -infinity<float> ? scan_part{max, 0.0F}
                                   : scan_part{infinity<float>, max != max ? max : 1.0F};
  }

  /// Of a positive normal number.
  [[nodiscard]] __device__ static float exponent_of(std::uint32_t bits) {
    constexpr float bias = 0x1p23F + 127;
    return __uint_as_float(bits >> 23 | 0x4b000000U) - bias;
  }
  /// log x, x from 2^-126 on, within 2^-22 and half a last place.
  [[nodiscard]] __device__ static float log_of(float x) {
    const std::uint32_t bits = __float_as_uint(x);
    const float rest = __uint_as_float((bits & 0x7fffffU) | 0x3f800000U);
    return fmaf(exponent_of(bits), ln2, fast_log2(rest) * ln2);
  }

  /// Of a finite maximum and a sum relative to it.
  [[nodiscard]] __device__ float logsumexp(float max, float sum) const {
    const float high = scale * max;
    return high + (fmaf(scale, max, -high) + log_of(sum));
  }

  /// The same of many sums, which are multiplied by `unit` first.
  struct near_sums {
    float unit;  ///< a power of 2
    float high;  ///< the logarithm of 1 / unit, and the maximum
    float low;

    [[nodiscard]] __device__ float logsumexp(float sum) const {
      return high + fmaf(fast_log2(sum), ln2, low);
    }
  };
  /// Of sums in [least, 3.5 least]: their log2 is below 3, and its error small; from 2^-126 to
  /// 2^126.
  [[nodiscard]] __device__ near_sums near(float max, float least) const {
    constexpr float ln2_high = 0x1.62e4p-1F;  // whose products with exponents are exact
    constexpr float ln2_low = 0x1.7f7d1cp-20F;
    const std::uint32_t exponent = __float_as_uint(least) & 0x7f800000U;
    const float n = exponent_of(exponent);
    const float product = scale * max;
    const auto high = core::two_sum<float>::of(product, n * ln2_high);
    return {__uint_as_float(0x7f000000U - exponent), high.value,
            fmaf(n, ln2_low, high.lost + fmaf(scale, max, -product))};
  }

  /// A public state's maximum is scaled; the scale is a power of 2 from 1 on here.
  [[nodiscard]] __device__ scan_carry carry_of(const max_sum<float>& given) const {
    const auto state = core::scan_state<float>::of(given);
    if (!state.is_ordinary()) {
      const float max = state.is_empty() ? -infinity<float> : infinity<float>;
      return {max, max, state.sum};
    }
    const float max = given.max / scale;
    return {max, max, static_cast<double>(given.sum)};
  }
  [[nodiscard]] __device__ max_sum<float> public_of(const scan_carry& carry) const {
    if (!is_finite(carry.max)) {
      return state_of(carry.max, carry.sum).partial();
    }
    return state_of(carry.largest, carry.sum * wide_ratio(carry.max, carry.largest)).partial();
  }
  [[nodiscard]] __device__ core::scan_state<float> state_of(float max, double sum) const {
    if (max == infinity<float>) {
      return {std::numeric_limits<double>::infinity(), 0, sum, 0};
    }
    if (max == -infinity<float>) {
      return {};
    }
    return {static_cast<double>(scale) * static_cast<double>(max), 0, sum, 0};
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
