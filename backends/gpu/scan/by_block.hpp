// SPDX-License-Identifier: Apache-2.0
/// \file
/// scan of many rows in f32 arithmetic: a block goes through its row once, in steps.
#pragma once

#include <gpu/group/combine.hpp>
#include <gpu/row/vector_elements.hpp>
#include <gpu/scan/arithmetic.hpp>
#include <gpu/uninitialised.hpp>

#include <core/scan_state.hpp>

#include <cstdint>
#include <limits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The logsumexps of a thread's elements and those before.
struct scan_results {
  float at[scan_each];

  /// One by one: of elements far below a later one relative to the maximum so far, and of
  /// infinities and NaN by the state that is for all elements.
  __device__ void carefully(const scan_arithmetic& how, const float (&v)[scan_each],
                            scan_part before, bool are_ordinary) {
    using monoid = core::scan_monoid<float>;
    auto state = how.state_of(before.max, static_cast<double>(before.sum));
#pragma unroll 1
    for (int k = 0; k < scan_each; ++k) {
      float x = v[0];  // registers have no index
#pragma unroll
      for (int i = 1; i < scan_each; ++i) {
        x = either(k == i, v[i], x);
      }
      float lse = -infinity<float>;
      if (are_ordinary) {
        before = how.combine(before, {x, x == -infinity<float> ? 0.0F : 1.0F});
        if (before.max > -infinity<float>) {
          lse = how.logsumexp(before.max, before.sum);
        }
      } else {
        auto own = how.state_of(x, 1);
        if (x != x) {
          own = core::scan_state<float>::of_nan();
        }
        state = monoid::combine(state, own);
        lse = state.logsumexp();
      }
#pragma unroll
      for (int i = 0; i < scan_each; ++i) {
        at[i] = either(k == i, lse, at[i]);
      }
    }
  }

  /// e: the elements' exponentials relative to `max`, at least their maximum. Whether they can be
  /// computed so.
  __device__ bool compute(const scan_arithmetic& how, const float (&e)[scan_each], float max,
                          const scan_part& before) {
    const float top = fmaxf(before.max, max);
    const float factor = how.ratio(max, top);
    float sum = fmaf(e[0], factor, before.sum * how.ratio(before.max, top));
    // Far below the maximum an exponential's relative error is large: |t| u.
    if (!(max < infinity<float> && before.max < infinity<float> && sum > 0x1p-6F)) {
      return false;
    }
#pragma unroll
    for (int k = 0; k < scan_each; ++k) {
      at[k] = how.logsumexp(top, sum);
      if (k + 1 < scan_each) {
        sum = fmaf(e[k + 1], factor, sum);
      }
    }
    return true;
  }
  /// The same of elements far below the warp's maximum.
  __device__ void compute_alone(const scan_arithmetic& how, const float (&x)[scan_each],
                                const scan_part& before) {
    float e[scan_each];
    const scan_part own = how.part_of(x, scan_maximum(x), e);
    if (!compute(how, e, own.max, before)) {
      carefully(how, x, before, own.max < infinity<float> && before.max < infinity<float>);
    }
  }
};

/// What a thread knows of its warp's elements.
struct scan_of_warp {
  float max;         ///< what its exponentials are relative to
  scan_part before;  ///< of the lanes before
  scan_part whole;   ///< and with the own

  /// e: exponentials of x, whose maximum is `max`. Relative to that of the warp, where no lane's
  /// sum before it is far below that: then sums need no more than additions.
  template <int lanes>
  __device__ static scan_of_warp of(const scan_arithmetic& how, const float (&x)[scan_each],
                                    float max, float (&e)[scan_each]) {
    auto lane = static_cast<int>(threadIdx.x) % lanes;
    forget_origin(lane);  // comparisons with it are made anew for each step
    const float top = largest_over_lanes(max, lanes);
    if (top < infinity<float>) {
      float sum = how.exponentials(x, top, e);
#pragma unroll
      for (int distance = 1; distance < lanes; distance *= 2) {
        const float other = shuffle(sum, lane - distance);
        sum += lane >= distance ? other : 0.0F;
      }
      const float others = shuffle(sum, lane - 1);
      if (ballot(lane > 0 && top > -infinity<float> && !(others > 0x1p-6F)) == 0) {
        return {top, lane == 0 ? scan_part{} : scan_part{top, others}, {top, sum}};
      }
    }
    scan_part whole = how.part_of(x, max, e);
    max = whole.max;
#pragma unroll
    for (int distance = 1; distance < lanes; distance *= 2) {
      const scan_part other = {shuffle(whole.max, lane - distance),
                               shuffle(whole.sum, lane - distance)};
      if (lane >= distance) {
        whole = how.combine(other, whole);
      }
    }
    const scan_part before = {shuffle(whole.max, lane - 1), shuffle(whole.sum, lane - 1)};
    return {max, lane == 0 ? scan_part{} : before, whole};
  }
};

template <class In, class Out>
struct scan_row_pass {
  const In* x;
  Out* y;
  std::int64_t cols;
  float absent;  ///< what elements beyond the row count as; prepared, it is -infinity
  bool reverse;
  bool in_vectors;  ///< a thread's elements are whole vectors of x, as long as all are in the row

  [[nodiscard]] __device__ std::int64_t column(std::int64_t i) const {
    return reverse ? cols - 1 - i : i;
  }
  [[nodiscard]] __device__ bool whole(std::int64_t first) const {
    return in_vectors && first + scan_each <= cols;
  }

  __device__ void load(std::int64_t first, float (&to)[scan_each]) const {
    if (whole(first)) {
      constexpr int width = vector_width<In>;
      const In* const from = x + (reverse ? cols - scan_each - first : first);
#pragma unroll
      for (int i = 0; i < scan_each / width; ++i) {
        const block16 vector = load_vector<false>(reinterpret_cast<const block16*>(from) + i);
#pragma unroll
        for (int k = 0; k < width; ++k) {
          to[i * width + k] = element_of<In>(vector, k);
        }
      }
      if (reverse) {
#pragma unroll
        for (int k = 0; k < scan_each / 2; ++k) {
          const float other = to[k];
          to[k] = to[scan_each - 1 - k];
          to[scan_each - 1 - k] = other;
        }
      }
      return;
    }
#pragma unroll
    for (int k = 0; k < scan_each; ++k) {
      to[k] = first + k < cols ? widen(x[column(first + k)]) : absent;
    }
  }

  __device__ void store(std::int64_t first, const scan_results& results) const {
    constexpr int width = vector_width<Out>;
    Out* const to = y + (reverse ? cols - scan_each - first : first);
    if (whole(first) && reinterpret_cast<std::uintptr_t>(to) % vector_bytes == 0) {
#pragma unroll
      for (int i = 0; i < scan_each / width; ++i) {
        block16 vector{};
#pragma unroll
        for (int k = 0; k < width; ++k) {
          const int at = i * width + k;
          set_element(vector, k,
                      Out(either(reverse, results.at[scan_each - 1 - at], results.at[at])));
        }
        store_vector(reinterpret_cast<block16*>(to) + i, vector);
      }
      return;
    }
#pragma unroll
    for (int k = 0; k < scan_each; ++k) {
      if (first + k < cols) {
        y[column(first + k)] = Out(results.at[k]);
      }
    }
  }
};

/// What a block's threads share, for two steps in turn.
struct scan_block_memory {
  static constexpr int most_warps = scan_threads / 32;
  scan_part warps[2][most_warps];
  float ends[2][scan_threads];
  float carry_max[2];
  double carry_sum[2];
  scan_carry spans_before;  ///< the last thread's: what comes before the span
  scan_carry own_span;      ///< and the span's own
};

/// Which columns of which rows blocks scan, and what they know of those before.
struct scan_blocks {
  int spans;                       ///< of a row
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
template <int lanes, bool folds, class In, class Out>
__global__ void __launch_bounds__(scan_threads, least_resident(scan_each == 8 ? 4 : 5))
    scan_by_block(const core::scan_rows<In, scan_step> rows, Out* y, std::int64_t y_stride,
                  bool exclusive, const scan_arithmetic how, const scan_blocks blocks) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  __shared__ uninitialised<scan_block_memory> shared;
  scan_block_memory& memory = shared.get();
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % lanes;
  const int warp = thread / lanes;
  const std::int64_t row =
      blocks.by_span ? blockIdx.x / static_cast<unsigned>(blocks.spans) : std::int64_t{blockIdx.x};
  const std::int64_t span =
      blocks.by_span ? blockIdx.x % static_cast<unsigned>(blocks.spans) : std::int64_t{0};
  const std::int64_t start = span * scan_span;
  const std::int64_t end =
      blocks.by_span && start + scan_span < rows.cols ? start + scan_span : rows.cols;
  const In* const x = rows.x + row * rows.stride;
  const bool begins = reinterpret_cast<std::uintptr_t>(x) % vector_bytes == 0;
  const scan_row_pass<In, Out> pass = {
      x,
      y + row * y_stride,
      rows.cols,
      how.map == element_map::negate ? infinity<float> : -infinity<float>,
      rows.reverse,
      begins && (!rows.reverse || rows.cols % vector_width<In> == 0)};
  int turn = 0;
  float before_all = -infinity<float>;  // thread 0: the result before the step's first
  if (thread == 0 || thread == scan_threads - 1) {
    scan_carry given;
    if constexpr (!folds) {
      if (blocks.by_span) {
        given = blocks.carries[blockIdx.x];
      } else {
        given = blocks.given(how, row);
      }
    }
    if (thread == 0) {
      memory.carry_max[0] = given.max;
      memory.carry_sum[0] = given.sum;
      before_all = how.state_of(given.max, given.sum).logsumexp();
    } else {
      memory.spans_before = given;
      memory.own_span = {};
    }
  }
  float next[scan_each];
  pass.load(start + std::int64_t{thread} * scan_each, next);
  for (std::int64_t begin = start; begin < end; begin += scan_step, turn ^= 1) {
    const std::int64_t first = begin + std::int64_t{thread} * scan_each;
    how.prepare(next);
    float e[scan_each];
    const auto of_warp = scan_of_warp::of<lanes>(how, next, scan_maximum(next), e);
    if (begin + scan_step < end) {
      pass.load(first + scan_step, next);
    }
    if (lane == lanes - 1) {
      memory.warps[turn][warp] = of_warp.whole;
    }
    __syncthreads();
    scan_part warps_before;
    for (int i = 0; i < warp; ++i) {
      warps_before = how.combine(warps_before, memory.warps[turn][i]);
    }
    if (thread == scan_threads - 1) {
      const scan_part all = how.combine(warps_before, of_warp.whole);
      memory.own_span =
          how.combine(memory.own_span, scan_carry{all.max, static_cast<double>(all.sum)});
    }
    if constexpr (!folds) {
      const scan_part carried = {memory.carry_max[turn],
                                 static_cast<float>(memory.carry_sum[turn])};
      const scan_part before = how.combine(how.combine(carried, warps_before), of_warp.before);
      scan_results results;
      if (!results.compute(how, e, of_warp.max, before)) {
        pass.load(first, e);
        how.prepare(e);
        results.compute_alone(how, e, before);
      }
      if (thread == scan_threads - 1) {
        const scan_carry after = how.combine(memory.spans_before, memory.own_span);
        memory.carry_max[turn ^ 1] = after.max;
        memory.carry_sum[turn ^ 1] = after.sum;
        if ((begin + scan_step) % scan_span == 0) {
          // The next span begins with this state, so that exclusive results are the same numbers.
          if (begin + scan_step <= rows.cols) {
            results.at[scan_each - 1] = how.state_of(after.max, after.sum).logsumexp();
          }
          memory.spans_before = after;
          memory.own_span = {};
        }
      }
      if (exclusive) {
        memory.ends[turn][thread] = results.at[scan_each - 1];
        __syncthreads();
        float last = before_all;
        if (thread > 0) {
          last = memory.ends[turn][thread - 1];
        }
        if (thread == 0) {
          before_all = memory.ends[turn][scan_threads - 1];
        }
#pragma unroll
        for (int k = 0; k < scan_each; ++k) {
          const float own_last = results.at[k];
          results.at[k] = last;
          last = own_last;
        }
      }
      pass.store(first, results);
    }
  }
  if (thread == scan_threads - 1) {
    if (folds) {
      blocks.carries[blockIdx.x] = memory.own_span;
    } else if (!blocks.by_span && blocks.carry_out != nullptr) {
      const scan_carry all = how.combine(memory.spans_before, memory.own_span);
      blocks.carry_out[row] = how.state_of(all.max, all.sum).partial();
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
    blocks.carry_out[row] = how.state_of(before.max, before.sum).partial();
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
