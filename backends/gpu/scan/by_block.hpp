// SPDX-License-Identifier: Apache-2.0
/// \file
/// scan of many rows in f32 arithmetic: a block goes through its row once, in steps. Exponentials
/// are relative to an anchor, the maximum of the span's first step, so that sums over lanes, warps
/// and steps are additions. A step that has an element far above it is scanned singly, and the
/// anchor rises.
#pragma once

#include <gpu/group/combine.hpp>
#include <gpu/scan/arithmetic.hpp>
#include <gpu/scan/row_pass.hpp>
#include <gpu/scan/singly.hpp>
#include <gpu/uninitialised.hpp>

#include <core/scan_state.hpp>

#include <cstdint>
#include <limits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// What a block knows of its row before a step, each thread the same.
struct scan_before {
  scan_carry given;  ///< of what comes before the span
  scan_carry own;    ///< of the span so far, relative to the anchor
  float top;         ///< of both
  float factor;      ///< of the span's sums, relative to `top`
  double given_sum;  ///< relative to `top`

  __device__ static scan_before of(const scan_arithmetic& how, const scan_carry& given) {
    scan_before result;
    result.given = given;
    result.change(how, {});
    return result;
  }
  __device__ void change(const scan_arithmetic& how, const scan_carry& changed) {
    own = changed;
    top = either(own.max > given.max, own.max, given.max);
    factor = static_cast<float>(how.wide_ratio(own.max, top));
    given_sum = given.sum * how.wide_ratio(given.max, top);
  }
  [[nodiscard]] __device__ float sum() const {
    return static_cast<float>(given_sum + own.sum * static_cast<double>(factor));
  }
  /// What comes before the span may be far below the anchor, as elements before it may.
  [[nodiscard]] __device__ scan_part part() const {
    return own.sum == 0 ? scan_part{given.max, static_cast<float>(given.sum)}
                        : scan_part{top, sum()};
  }
};

/// Sums of a warp's exponentials.
template <int lanes, int tiles>
struct scan_sums {
  float whole;  ///< infinite if an exponential is too large
  float first_tile;

  /// Adds what the warp has before them to tiles' first exponentials.
  __device__ static scan_sums of(float (&e)[scan_each]) {
    constexpr int width = scan_each / tiles;
    auto lane = static_cast<int>(threadIdx.x) % lanes;
    forget_origin(lane);  // comparisons with it are made anew for each step
    scan_sums sums;
    float own[tiles];
    bool too_large = false;
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
      own[t] = e[t * width];
#pragma unroll
      for (int k = 1; k < width; ++k) {
        own[t] += e[t * width + k];
      }
      too_large = too_large || !(own[t] <= scan_most_above);
    }
    sum_up_to_lane<lanes>(own);
    sums.whole = 0;
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
      const float others = shuffle(own[t], lane - 1);
      e[t * width] += lane > 0 ? sums.whole + others : sums.whole;
      sums.whole += shuffle(own[t], lanes - 1);
      if (t == 0) {
        sums.first_tile = sums.whole;
      }
    }
    if (ballot(too_large) != 0) {
      sums.whole = infinity<float>;
    }
    return sums;
  }

  /// The logsumexps, of `log`. `factor`: of the exponentials, but not of what comes before the
  /// step.
  template <class Log>
  __device__ static void compute(const float (&e)[scan_each], float factor, float warps_before,
                                 float steps_before, const Log& log, scan_results& results) {
    constexpr int width = scan_each / tiles;
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
      float sum = steps_before;
#pragma unroll
      for (int k = 0; k < width; ++k) {
        const float next = e[t * width + k];
        sum = fmaf(k == 0 ? next + warps_before : next, factor, sum);
        results.at[t * width + k] = log(sum);
      }
    }
  }
};

/// The logsumexps of a warp's elements whose exponentials e are relative to the anchor. Whether
/// they are in tiles; else a lane has some one after the other. warps_before: of the step.
template <int lanes, class Pass>
__device__ inline bool scan_by_anchor(const scan_arithmetic& how, const Pass& pass,
                                      const scan_before& before,
                                      const scan_sums<lanes, Pass::tiles>& sums,
                                      const float (&e)[scan_each], int warp, float warps_before,
                                      scan_results& results) {
  using sums_type = scan_sums<lanes, Pass::tiles>;
  const float steps_before = before.sum();
  const float least = fmaf(warps_before, before.factor, steps_before);
  const float most = fmaf(warps_before + sums.whole, before.factor, steps_before);
  const float until_first = fmaf(shuffle(e[0], 0), before.factor, least);
  const float lowest = warp == 0 && before.factor == 1 ? scan_least_exact : scan_least_of_warp;
  const bool in_tiles = before.top < infinity<float> && until_first > lowest &&
                        fmaf(sums.first_tile, before.factor, least) > scan_least_of_warp;
  if (!in_tiles) {
    scan_part until_warp = before.part();
    if (warp > 0) {
      until_warp = how.combine(until_warp, {before.own.max, warps_before});
    }
    results = scan_singly<lanes>(how, pass, until_warp).logs;
    return false;
  }
  if (least > scan_least_of_warp && most < 3.5F * least && most < 0x1p100F) {
    const auto logs = how.near(before.top, least);
    sums_type::compute(
        e, before.factor * logs.unit, warps_before, steps_before * logs.unit,
        [&](float sum) { return logs.logsumexp(sum); }, results);
    return true;
  }
  sums_type::compute(
      e, before.factor, warps_before, steps_before,
      [&](float sum) { return how.logsumexp(before.top, sum); }, results);
  if (!(until_first > scan_least_of_warp)) {
    const auto first = scan_first_tile<lanes>(how, pass, before.top, steps_before);
#pragma unroll
    for (int k = 0; k < Pass::width; ++k) {
      results.at[k] = first.at[k];
    }
  }
  return true;
}

/// Results one element later; `last` is the one before the warp's first.
template <int lanes, int tiles>
__device__ inline void shift_results(float last, scan_results& results) {
  constexpr int width = scan_each / tiles;
  auto lane = static_cast<int>(threadIdx.x) % lanes;
  forget_origin(lane);
#pragma unroll
  for (int t = 0; t < tiles; ++t) {
    const float own = results.at[t * width + width - 1];
    const float other = shuffle(own, lane - 1);
#pragma unroll
    for (int k = width - 1; k > 0; --k) {
      results.at[t * width + k] = results.at[t * width + k - 1];
    }
    results.at[t * width] = lane > 0 ? other : last;
    last = shuffle(own, lanes - 1);
  }
}

/// What a block's warps share, for two steps in turn.
struct scan_block_memory {
  static constexpr int most_warps = scan_threads / 32;
  float sums[2][most_warps];
  scan_part parts[2][most_warps];
  float ends[2][most_warps];
  float anchors[most_warps];
  float maxima[most_warps];
};

/// Which columns of which rows blocks scan, and what they know of those before.
struct scan_blocks {
  int steps;                       ///< of a row
  int spans;                       ///< the same
  bool by_span;                    ///< a block has one, else the row
  const max_sum<float>* carry_in;  ///< of the rows, or null
  max_sum<float>* carry_out;
  scan_carry* carries;  ///< of the spans: their own, then of those before

  [[nodiscard]] __device__ scan_carry given(const scan_arithmetic& how, std::int64_t row) const {
    if (carry_in == nullptr) {
      return {};
    }
    return how.carry_of(carry_in[row]);
  }
};

/// `folds`: only what the spans carry is wanted.
template <int lanes, bool folds, bool reverse, class In, class Out>
__global__ void __launch_bounds__(scan_threads, least_resident(sizeof(In) == 4 || reverse ? 4 : 5))
    scan_by_block(const core::scan_rows<In, scan_step> rows, Out* y, std::int64_t y_stride,
                  bool exclusive, const scan_arithmetic how, const scan_blocks blocks) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using pass_type = scan_row_pass<lanes, reverse, In, Out>;
  constexpr int tiles = pass_type::tiles;
  using sums_type = scan_sums<lanes, tiles>;
  constexpr int most_warps = scan_threads / lanes;
  __shared__ uninitialised<scan_block_memory> shared;
  scan_block_memory& memory = shared.get();
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int warp = static_cast<int>(threadIdx.x) / lanes;
  const int warps = static_cast<int>(blockDim.x) / lanes;
  std::int64_t row = blockIdx.x;
  std::int64_t start = 0;
  int steps = blocks.steps;
  int ends_row = steps - 1;  // the number of the step that does
  if (blocks.by_span) {
    constexpr int of_span = scan_span / scan_step;
    const auto span = static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks.spans));
    row = blockIdx.x / static_cast<unsigned>(blocks.spans);
    start = std::int64_t{span} * scan_span;
    ends_row -= span * of_span;
    steps = ends_row < of_span ? ends_row + 1 : of_span;
  }
  const int step = warps * pass_type::of_warp;
  const std::int64_t first = start + warp * pass_type::of_warp;
  const auto tail = static_cast<int>(rows.cols - first - std::int64_t{ends_row} * step);
  const auto left_in = [&](int i) {
    return i < ends_row || tail > pass_type::of_warp ? pass_type::of_warp : tail;
  };
  auto pass =
      pass_type::of(rows.x + row * rows.stride, y + row * y_stride, rows.cols, first, left_in(0),
                    In(how.map == element_map::negate ? infinity<float> : -infinity<float>));
  auto next = pass.load();
  const auto over_block = [&](float value, float(&of_warps)[scan_block_memory::most_warps]) {
    value = largest_over_lanes(value, lanes);
    if (lane == 0) {
      of_warps[warp] = value;
    }
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < warps; ++i) {
      value = max_or_nan(value, of_warps[i]);
    }
    return value;
  };
  scan_carry given;
  if constexpr (!folds) {
    given = blocks.by_span ? blocks.carries[blockIdx.x] : blocks.given(how, row);
  }
  auto before = scan_before::of(how, given);
  float last = -infinity<float>;  // the result before the step's first
  if (!folds && exclusive) {
    last = how.state_of(given.max, given.sum).logsumexp();
  }
  if (warp == 0 && lane < most_warps && lane >= warps) {
    memory.sums[0][lane] = 0;
    memory.sums[1][lane] = 0;
  }
  const bool wants_largest = blocks.carry_out != nullptr;
  float largest = -infinity<float>;
  for (int i = 0; i < steps; ++i) {
    const int turn = i % 2;
    float e[scan_each];
    pass_type::elements(next, e);
    how.prepare(e);
    if (i + 1 < steps) {
      auto ahead = pass;
      ahead.advance(step, left_in(i + 1));
      next = ahead.load();
    }
    if (wants_largest || before.own.max == -infinity<float>) {
      const float of_step = scan_maximum(e);
      largest = max_or_nan(largest, of_step);
      if (before.own.max == -infinity<float>) {
        const float anchor = over_block(of_step, memory.anchors);
        if (is_finite(anchor)) {
          before.change(how, {anchor, anchor, 0});
        }
      }
    }
    bool has_anchor = is_finite(before.own.max);
    sums_type sums;
    float all = 0;  // of the step
    float warps_before = 0;
    if (has_anchor) {
      static_cast<void>(how.exponentials(e, before.own.max, e));
      sums = sums_type::of(e);
      if (lane == 0) {
        memory.sums[turn][warp] = sums.whole;
      }
      __syncthreads();
#pragma unroll
      for (int w = 0; w < most_warps; ++w) {
        warps_before = either(w == warp, all, warps_before);
        all += memory.sums[turn][w];
      }
      // Sums of the warps before are inexact if all is far below the anchor.
      const bool is_far_below =
          warps > 1 && !(before.own.sum > 0 || memory.sums[turn][0] > scan_least_of_warp);
      has_anchor = all < infinity<float> && !is_far_below;
    }
    scan_results results;
    bool in_tiles = false;
    if (has_anchor) {
      if constexpr (!folds) {
        in_tiles = scan_by_anchor<lanes>(how, pass, before, sums, e, warp, warps_before, results);
      }
      before.own.sum += static_cast<double>(all);
    } else {
      const scan_part of_warp = scan_singly<lanes>(how, pass, {}).whole;
      if (lane == 0) {
        memory.parts[turn][warp] = of_warp;
      }
      __syncthreads();
      scan_part of_step;
      scan_part until_warp = before.part();
#pragma unroll 1
      for (int w = 0; w < warps; ++w) {
        const scan_part part = memory.parts[turn][w];
        of_step = how.combine(of_step, part);
        if (w < warp) {
          until_warp = how.combine(until_warp, part);
        }
      }
      if constexpr (!folds) {
        results = scan_singly<lanes>(how, pass, until_warp).logs;
      }
      before.change(how, how.combine(before.own, scan_carry{of_step.max, of_step.max,
                                                            static_cast<double>(of_step.sum)}));
    }
    const bool ends_span = warps == most_warps && (i + 1) % (scan_span / scan_step) == 0;
    if (ends_span) {
      before = scan_before::of(how, how.combine(before.given, before.own));
      // The next span begins with this state, so that exclusive results are the same numbers.
      if (!folds && threadIdx.x == blockDim.x - 1 && pass.left == pass_type::of_warp) {
        results.at[scan_each - 1] = how.state_of(before.given.max, before.given.sum).logsumexp();
      }
    }
    if constexpr (!folds) {
      if (exclusive) {
        if (lane == lanes - 1) {
          memory.ends[turn][warp] = results.at[scan_each - 1];
        }
        __syncthreads();
        const float before_warp = warp == 0 ? last : memory.ends[turn][warp - 1];
        last = memory.ends[turn][warps - 1];
        if (in_tiles) {
          shift_results<lanes, tiles>(before_warp, results);
        } else {
          shift_results<lanes, 1>(before_warp, results);
        }
      }
      if (in_tiles) {
        pass.store(results);
      } else {
        pass.store_singly(results);
      }
    }
    pass.advance(step, left_in(i + 1));
  }
  if (folds || (blocks.carry_out != nullptr && !blocks.by_span)) {
    scan_carry all = how.combine(before.given, before.own);
    if (wants_largest) {
      all.largest = fmaxf(given.largest, over_block(largest, memory.maxima));
    }
    if (threadIdx.x == 0) {
      if constexpr (folds) {
        blocks.carries[blockIdx.x] = all;
      } else {
        blocks.carry_out[row] = how.public_of(all);
      }
    }
  }
}

/// What rows' spans carry to what comes before each, a thread a row.
__global__ void __launch_bounds__(scan_threads)
    scan_spans(std::int64_t rows, const scan_arithmetic how, const scan_blocks blocks) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) {
    return;
  }
  scan_carry before = blocks.given(how, row);
  for (int i = 0; i < blocks.spans; ++i) {
    scan_carry& at = blocks.carries[row * blocks.spans + i];
    const scan_carry own = at;
    at = before;
    before = how.combine(before, own);
  }
  if (blocks.carry_out != nullptr) {
    blocks.carry_out[row] = how.public_of(before);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
