// SPDX-License-Identifier: Apache-2.0
/// \file
/// scan of many rows in f32 arithmetic: a block goes through its row once, in steps. Exponentials
/// are relative to an anchor, the maximum of the span's first step, so that sums over lanes, warps
/// and steps are additions. A step that has elements far above it is scanned singly, and the anchor
/// rises.
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
      add_of_lane_below(e[t * Pass::width], own[t], 1);
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
struct scan_unit {
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
  __device__ static scan_unit of(const scan_blocks& blocks, const Rows& rows,
                                 typename Pass::output* y, std::int64_t y_stride,
                                 typename Pass::input absent) {
    const int warp = static_cast<int>(threadIdx.x) / Pass::lanes_of_warp;
    scan_unit unit;
    std::int64_t first = warp * Pass::of_warp;
    unit.step = static_cast<int>(blockDim.x) * Pass::each;
    unit.of_span = scan_span / unit.step;
    unit.row = blockIdx.x;
    unit.steps = blocks.steps;
    unit.ends_row = blocks.steps - 1;
    if (blocks.by_span) {
      const auto all = static_cast<unsigned>(blocks.spans);
      const auto span = static_cast<int>(blockIdx.x % all);
      unit.row = blockIdx.x / all;
      first += std::int64_t{span} * scan_span;
      unit.ends_row -= span * unit.of_span;
      unit.steps = unit.ends_row < unit.of_span ? unit.ends_row + 1 : unit.of_span;
    }
    unit.tail = static_cast<int>(rows.cols - first - std::int64_t{unit.ends_row} * unit.step);
    unit.pass = Pass::of(rows.x + unit.row * rows.stride, y + unit.row * y_stride, rows.cols, first,
                         unit.left_in(0), absent);
    const bool is_ragged = unit.tail < Pass::of_warp && unit.ends_row < unit.steps;
    const int whole = is_ragged ? unit.ends_row : unit.steps;
    unit.in_vectors = unit.pass.in_vectors ? whole : 0;
    unit.out_vectors = unit.pass.out_vectors ? whole : 0;
    return unit;
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
  const auto unit = scan_unit<pass_type>::of(
      blocks, rows, y, y_stride,
      In(how.map == element_map::negate ? infinity<float> : -infinity<float>));
  auto pass = unit.pass;
  auto next = pass.load(unit.in_vectors > 0);

  const int warp = static_cast<int>(threadIdx.x) / lanes;
  const int warps = static_cast<int>(blockDim.x) / lanes;
  block_type block{how, memory, warp, warps, scan_before(memory.seldom[threadIdx.x])};
  scan_carry given;
  if constexpr (!folds) {
    given = blocks.by_span ? blocks.carries[blockIdx.x] : blocks.given(how, unit.row);
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
  for (int i = 0; i < unit.steps; ++i) {
    const int turn = i % 2;
    float e[pass_type::each];
    pass_type::elements(next, e);
    const auto load_next = [&] {
      auto ahead = pass;
      ahead.advance(unit.step, unit.left_in(i + 1));
      if (i + 1 < unit.in_vectors) [[likely]] {
        next = ahead.load(true);
      } else if (i + 1 < unit.steps) {
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
    const bool ends_span = ((i + 1) & (unit.of_span - 1)) == 0;
    if (reads_again || ends_span || exclusive || folds || i >= unit.out_vectors) [[unlikely]] {
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
    pass.advance(unit.step, unit.left_in(i + 1));
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
        blocks.carry_out[unit.row] = how.public_of(all);
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
