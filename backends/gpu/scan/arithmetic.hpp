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

/// Elements of a thread in a step, and of one whose row is short; conditions of more than 8 have no
/// room in AMD GPUs' scalar registers.
template <class In>
constexpr int scan_each = !has_max_over_warp ? 8 : (sizeof(In) == 2 ? 32 : 16);
constexpr int scan_each_of_short = 8;
/// Threads of a block, at most.
template <class In>
constexpr int scan_threads = !has_max_over_warp ? 256 : (sizeof(In) == 2 ? 64 : 128);
constexpr int scan_span = 16384;  ///< columns whose carry is summed by itself

/// Far from the anchor an exponential's relative error is large: |t| u and more. Sums of elements
/// far below it alone, of as many as a lane has, are made otherwise.
constexpr float scan_least_of_lane = 0x1p-6F;
/// From here on what exponentials lack below 2^-126 does not show.
constexpr float scan_least_exact = 0x1p-92F;
/// An anchor is given up for elements far above it: a step has up to 2048.
constexpr float scan_most_of_step = 0x1p11F;

__device__ inline bool is_finite(float x) { return x > -infinity<float> && x < infinity<float>; }

/// a or b. By value: the conditional operator's variables would have to be in memory.
__device__ inline float either(bool first, float a, float b) { return first ? a : b; }

/// The elements' maximum, mapped but not scaled, and the sum of the exponentials relative to it. A
/// NaN among them is a maximum of +infinity and a sum of NaN.
struct scan_part {
  float max = -infinity<float>;
  float sum = 0;
};

/// What exponentials of a span are relative to.
struct scan_anchor {
  float max = -infinity<float>;  ///< mapped, not scaled
  float correction = 1;          ///< of exponentials, for what `offset` lost
  /// Of exponents: the maximum times scale_2, rounded. Infinite: differences to the maximum are
  /// scaled.
  float offset = infinity<float>;
  float least = infinity<float>;  ///< which a warp's sums have to be above; infinite: no anchor
};

/// What comes before a step.
struct scan_carry {
  float max = -infinity<float>;      ///< what the sum is relative to
  float largest = -infinity<float>;  ///< the elements' maximum, where a public state is wanted
  double sum = 0;
};

/// The largest of x, or NaN.
template <int count>
__device__ inline float scan_maximum(const float (&x)[count]) {
  float max = -infinity<float>;
#pragma unroll
  for (int k = 0; k < count; ++k) {
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
  [[nodiscard]] __device__ bool has_to_prepare() const {
    return map != element_map::none || scale > 1;
  }
  template <int count>
  __device__ void prepare(float (&x)[count]) const {
    if (!has_to_prepare()) {
      return;
    }
#pragma unroll
    for (int k = 0; k < count; ++k) {
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

  [[nodiscard]] __device__ scan_anchor anchor_at(float max) const {
    if (!is_finite(max)) {
      return {.max = max};
    }
    const float offset = max * scale_2;
    if (low_matters || !(fabsf(offset) < 0x1p16F)) {
      return {.max = max, .least = 0x1p-3F};  // a difference rounds, its product rounds again
    }
    const float lost = fmaf(max, scale_2, -offset) * ln2;  // below 2^-9
    const float correction = 1 - fmaf(lost * -0.5F, lost, lost);
    return {.max = max, .correction = correction, .offset = offset, .least = 0x1p-6F};
  }
  /// Elements become their exponentials relative to the anchor.
  template <int count>
  __device__ void exponentials(const scan_anchor& anchor, float (&x)[count]) const {
    if (anchor.offset < infinity<float>) [[likely]] {
#pragma unroll
      for (int k = 0; k < count; ++k) {
        x[k] = fast_exp2(fmaf(x[k], scale_2, -anchor.offset));
      }
    } else {
      static_cast<void>(exponentials(x, anchor.max, x));
    }
  }
  /// Exponentials of elements relative to `max`; returns their sum.
  template <int count>
  [[nodiscard]] __device__ float exponentials(const float (&x)[count], float max,
                                              float (&e)[count]) const {
    const float anchor = max == -infinity<float> ? 0 : max;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < count; ++k) {
      e[k] = x[k] - anchor;
    }
    if (low_matters) {
#pragma unroll
      for (int k = 0; k < count; ++k) {
        e[k] = fast_exp2(fmaf(e[k], scale_2, e[k] * scale_2_low));
      }
    } else {
#pragma unroll
      for (int k = 0; k < count; ++k) {
        e[k] = fast_exp2(e[k] * scale_2);
      }
    }
#pragma unroll
    for (int k = 0; k < count; ++k) {
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
  template <int count>
  [[nodiscard]] __device__ scan_part part_of(const float (&x)[count], float max,
                                             float (&e)[count]) const {
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
  /// Of sums of one exponent, or nearly: the logarithm of the exponent and the maximum are made
  /// once, so that where they cancel nothing is lost.
  struct near_sums {
    float unit = 0;  ///< a power of 2; 0: there are none
    float high = 0;  ///< the logarithm of 1 / unit, and the maximum
    float low = 0;

    /// Whether they are for sums from `least` to `most`, whose log2, times unit, is below 3.
    [[nodiscard]] __device__ bool hold(float least, float most) const {
      return least * unit >= 1 && most * unit < 7;
    }
    /// Of a sum that was multiplied by unit, for a result of type Out.
    template <class Out>
    [[nodiscard]] __device__ float logsumexp(float sum) const {
      if constexpr (sizeof(Out) == 2) {
        return fmaf(fast_log2(sum), ln2, high + low);
      }
      return high + fmaf(fast_log2(sum), ln2, low);
    }
  };
  /// For sums of the exponent that `least` has, from 2^-126 to 2^126.
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

  /// Of a finite maximum and a sum relative to it, from 2^-126 on.
  template <class Out = float>
  [[nodiscard]] __device__ float logsumexp(float max, float sum) const {
    const std::uint32_t bits = __float_as_uint(sum);
    const float rest = __uint_as_float((bits & 0x7fffffU) | 0x3f800000U);
    return near(max, sum).template logsumexp<Out>(rest);
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
