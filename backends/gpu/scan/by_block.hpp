// SPDX-License-Identifier: Apache-2.0
/// \file
/// scan of many rows in f32 arithmetic: a block goes through its row once, in steps. Exponentials
/// are relative to an anchor, the maximum of the span's first step, so that sums over lanes, warps
/// and steps are additions. A step that has elements far above it is scanned singly, and the anchor
/// rises.
#pragma once

#include <gpu/group/combine.hpp>
#include <gpu/scan/arithmetic.hpp>
#include <gpu/scan/before.hpp>
#include <gpu/scan/by_anchor.hpp>
#include <gpu/scan/row_pass.hpp>
#include <gpu/scan/singly.hpp>
#include <gpu/uninitialised.hpp>

#include <core/scan_state.hpp>

#include <cstdint>
#include <limits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Results one element later; `last` is the one before the warp's first.
template <int lanes, class Pass>
__device__ inline void shift_results(float last, float (&results)[Pass::each]) {
  constexpr int width = Pass::width;
  auto lane = static_cast<int>(threadIdx.x) % lanes;
  forget_origin(lane);
#pragma unroll
  for (int t = 0; t < Pass::tiles; ++t) {
    const float own = results[t * width + width - 1];
    const float other = shuffle(own, lane - 1);
#pragma unroll
    for (int k = width - 1; k > 0; --k) {
      results[t * width + k] = results[t * width + k - 1];
    }
    results[t * width] = lane > 0 ? other : last;
    last = shuffle(own, lanes - 1);
  }
}

/// What a block's warps share, for two steps in turn.
template <int most_warps, int most_threads>
struct scan_block_memory {
  float sums[2][most_warps];
  scan_part parts[2][most_warps];
  float ends[2][most_warps];
  float anchors[most_warps];
  float maxima[most_warps];
  scan_seldom seldom[most_threads];
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

/// What a block scans without a break, a row or a span of it, in steps.
template <class Pass>
struct scan_stretch {
  std::int64_t row;
  int steps;
  int ends_row;  ///< the number of the step that does
  int step;      ///< its columns
  int of_span;   ///< steps of a span, a power of 2
  int tail;      ///< of the warp's elements in the step that ends the row, below 0 or above of_warp
  int in_vectors;   ///< the warp's first steps that can be read in whole tiles
  int out_vectors;  ///< and written
  Pass pass;        ///< of the first step

  template <class Rows>
  __device__ static scan_stretch of(const scan_blocks& blocks, const Rows& rows,
                                    typename Pass::output* y, std::int64_t y_stride,
                                    typename Pass::input absent) {
    const int warp = static_cast<int>(threadIdx.x) / Pass::lanes_of_warp;
    scan_stretch stretch;
    std::int64_t first = warp * Pass::of_warp;
    stretch.step = static_cast<int>(blockDim.x) * Pass::each;
    stretch.of_span = scan_span / stretch.step;
    stretch.row = blockIdx.x;
    stretch.steps = blocks.steps;
    stretch.ends_row = blocks.steps - 1;
    if (blocks.by_span) {
      const auto all = static_cast<unsigned>(blocks.spans);
      const auto span = static_cast<int>(blockIdx.x % all);
      stretch.row = blockIdx.x / all;
      first += std::int64_t{span} * scan_span;
      stretch.ends_row -= span * stretch.of_span;
      stretch.steps = stretch.ends_row < stretch.of_span ? stretch.ends_row + 1 : stretch.of_span;
    }
    stretch.tail =
        static_cast<int>(rows.cols - first - std::int64_t{stretch.ends_row} * stretch.step);
    stretch.pass = Pass::of(rows.x + stretch.row * rows.stride, y + stretch.row * y_stride,
                            rows.cols, first, stretch.left_in(0), absent);
    const bool is_ragged = stretch.tail < Pass::of_warp && stretch.ends_row < stretch.steps;
    const int whole = is_ragged ? stretch.ends_row : stretch.steps;
    stretch.in_vectors = stretch.pass.in_vectors ? whole : 0;
    stretch.out_vectors = stretch.pass.out_vectors ? whole : 0;
    return stretch;
  }
  [[nodiscard]] __device__ int left_in(int i) const {
    return i < ends_row || tail > Pass::of_warp ? Pass::of_warp : tail;
  }
};

/// A block's way through its steps.
template <int lanes, int of_lane, bool folds, bool reverse, class In, class Out>
struct scan_of_block {
  using pass_type = scan_row_pass<lanes, of_lane, reverse, In, Out>;
  static constexpr int each = pass_type::each;
  static constexpr int most_warps = scan_threads<In> / lanes;
  using memory_type = scan_block_memory<most_warps, scan_threads<In>>;

  const scan_arithmetic& how;
  memory_type& memory;
  int warp;
  int warps;
  scan_before before;
  float largest = -infinity<float>;
  float last = -infinity<float>;  ///< the result before the step's first, of an exclusive scan

  [[nodiscard]] __device__ bool is_first_lane() const { return threadIdx.x % lanes == 0; }

  __device__ float max_over_block(float value, float (&of_warps)[most_warps]) {
    value = largest_over_lanes(value, lanes);
    if (is_first_lane()) {
      of_warps[warp] = value;
    }
    __syncthreads();
#pragma unroll
    for (int w = 0; w < most_warps; ++w) {
      value = max_or_nan(value, of_warps[w]);
    }
    return value;
  }
  __device__ void look_at_maximum(const float (&x)[each]) {
    const float of_step = scan_maximum(x);
    largest = max_or_nan(largest, of_step);
    if (!before.has_elements()) {
      const float anchor = max_over_block(of_step, memory.anchors);
      if (is_finite(anchor)) {
        before.change(how, {anchor, anchor, 0});
      }
    }
  }
  /// A step's exponentials become its results, if they can. reads_again: whether elements were read
  /// once more.
  __device__ bool step_by_anchor(int turn, const pass_type& pass, float (&e)[each],
                                 bool& reads_again) {
    const auto sums = scan_sums<lanes, pass_type>::of(e);
    if (is_first_lane()) {
      memory.sums[turn][warp] = sums.whole;
    }
    __syncthreads();
    float all = 0;
    float warps_before = 0;
#pragma unroll
    for (int w = 0; w < most_warps; ++w) {
      warps_before = either(w == warp, all, warps_before);
      all += memory.sums[turn][w];
    }
    // Sums of the warps before are inexact if all is far below the anchor.
    const bool is_far_below = warps > 1 && !(before.sum > 0 || memory.sums[turn][0] > before.least);
    if (!(all <= scan_most_of_step) || is_far_below) [[unlikely]] {
      return false;
    }
    if constexpr (!folds) {
      sums.add_to_first(e);
      float logs[each];
      reads_again = !scan_by_anchor<lanes, pass_type>(how, pass, before, sums, warp, warps_before)
                         .compute(e, logs);
#pragma unroll
      for (int k = 0; k < each; ++k) {
        e[k] = logs[k];
      }
    }
    before.add(all);
    return true;
  }
  __device__ void step_singly(int turn, const pass_type& pass, float (&results)[each]) {
    const scan_part of_warp = scan_singly<lanes>(how, pass, {}, results);
    if (is_first_lane()) {
      memory.parts[turn][warp] = of_warp;
    }
    __syncthreads();
    scan_part of_step;
    scan_part until_warp = before.part_until(how, 0);
#pragma unroll 1
    for (int w = 0; w < warps; ++w) {
      const scan_part part = memory.parts[turn][w];
      of_step = how.combine(of_step, part);
      if (w < warp) {
        until_warp = how.combine(until_warp, part);
      }
    }
    if constexpr (!folds) {
      static_cast<void>(scan_singly<lanes>(how, pass, until_warp, results));
    }
    before.change(how, how.combine(before.own(), scan_carry{of_step.max, of_step.max,
                                                            static_cast<double>(of_step.sum)}));
  }
  /// The next span begins with what its first exclusive result is the logsumexp of, so that
  /// exclusive results are the same numbers as inclusive ones.
  __device__ void end_span(const pass_type& pass, float (&results)[each]) {
    before.begin_span(before.all(how));
    if (!folds && threadIdx.x == blockDim.x - 1 && pass.left == pass_type::of_warp) {
      const scan_carry& given = before.seldom.given;
      results[each - 1] = how.state_of(given.max, given.sum).logsumexp();
    }
  }
  __device__ void make_exclusive(int turn, float (&results)[each]) {
    if (threadIdx.x % lanes == lanes - 1) {
      memory.ends[turn][warp] = results[each - 1];
    }
    __syncthreads();
    const float before_warp = warp == 0 ? last : memory.ends[turn][warp - 1];
    last = memory.ends[turn][warps - 1];
    shift_results<lanes, pass_type>(before_warp, results);
  }
};

/// Blocks of the most threads for which a multiprocessor should have registers.
template <class In, int of_lane>
constexpr int scan_resident = (of_lane < scan_each<In> ? 768 : 512) / scan_threads<In>;

/// of_lane: elements. `folds`: only what the spans carry is wanted.
template <int lanes, int of_lane, bool folds, bool reverse, class In, class Out>
__global__ void __launch_bounds__(scan_threads<In>, least_resident(scan_resident<In, of_lane>))
    scan_by_block(const core::scan_rows<In, scan_span> rows, Out* y, std::int64_t y_stride,
                  bool exclusive, const scan_arithmetic how, const scan_blocks blocks) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using block_type = scan_of_block<lanes, of_lane, folds, reverse, In, Out>;
  using pass_type = typename block_type::pass_type;
  static_assert(scan_span % (scan_threads<In> * of_lane) == 0);
  __shared__ uninitialised<typename block_type::memory_type> shared;
  auto& memory = shared.get();
  const auto stretch = scan_stretch<pass_type>::of(
      blocks, rows, y, y_stride,
      In(how.map == element_map::negate ? infinity<float> : -infinity<float>));
  auto pass = stretch.pass;
  auto next = pass.load(stretch.in_vectors > 0);

  const int warp = static_cast<int>(threadIdx.x) / lanes;
  const int warps = static_cast<int>(blockDim.x) / lanes;
  block_type block{how, memory, warp, warps, scan_before(memory.seldom[threadIdx.x])};
  scan_carry given;
  if constexpr (!folds) {
    given = blocks.by_span ? blocks.carries[blockIdx.x] : blocks.given(how, stretch.row);
  }
  block.before.begin_span(given);
  if (!folds && exclusive) {
    block.last = how.state_of(given.max, given.sum).logsumexp();
  }
  if (threadIdx.x < block_type::most_warps && static_cast<int>(threadIdx.x) >= warps) {
    memory.sums[0][threadIdx.x] = 0;
    memory.sums[1][threadIdx.x] = 0;
    memory.anchors[threadIdx.x] = -infinity<float>;
    memory.maxima[threadIdx.x] = -infinity<float>;
  }
  // What is not usual is asked for at few places in a step: each branch takes time.
  const bool wants_largest = blocks.carry_out != nullptr;
  const bool is_usual = !wants_largest && !how.has_to_prepare();
  for (int i = 0; i < stretch.steps; ++i) {
    const int turn = i % 2;
    float e[pass_type::each];
    pass_type::elements(next, e);
    const auto load_next = [&] {
      auto ahead = pass;
      ahead.advance(stretch.step, stretch.left_in(i + 1));
      if (i + 1 < stretch.in_vectors) [[likely]] {
        next = ahead.load(true);
      } else if (i + 1 < stretch.steps) {
        next = ahead.load(false);
      }
    };
    load_next();
    if (!(is_usual && block.before.has_offset())) [[unlikely]] {
      how.prepare(e);
      if (wants_largest || !block.before.has_anchor()) {
        block.look_at_maximum(e);
      }
    }
    bool by_anchor = block.before.has_anchor();
    bool reads_again = false;
    if (by_anchor) [[likely]] {
      how.exponentials(block.before.anchor(), e);
      by_anchor = block.step_by_anchor(turn, pass, e, reads_again);
    }
    if (!by_anchor) [[unlikely]] {
      block.step_singly(turn, pass, e);
      reads_again = true;
    }
    const bool ends_span = ((i + 1) & (stretch.of_span - 1)) == 0;
    if (reads_again || ends_span || exclusive || folds || i >= stretch.out_vectors) [[unlikely]] {
      if (reads_again) {
        load_next();  // again: meanwhile it would take registers
      }
      if (ends_span) {
        block.end_span(pass, e);
      }
      if constexpr (!folds) {
        if (exclusive) {
          block.make_exclusive(turn, e);
        }
        pass.store(e);
      }
    } else {
      pass.store_whole(e);
    }
    pass.advance(stretch.step, stretch.left_in(i + 1));
  }
  if (folds || (wants_largest && !blocks.by_span)) {
    scan_carry all = block.before.all(how);
    if (wants_largest) {
      all.largest = fmaxf(given.largest, block.max_over_block(block.largest, memory.maxima));
    }
    if (threadIdx.x == 0) {
      if constexpr (folds) {
        blocks.carries[blockIdx.x] = all;
      } else {
        blocks.carry_out[stretch.row] = how.public_of(all);
      }
    }
  }
}

constexpr int scan_span_threads = 128;

/// What rows' spans carry to what comes before each, a thread a row.
__global__ void __launch_bounds__(scan_span_threads)
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
