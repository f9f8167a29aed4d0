// SPDX-License-Identifier: Apache-2.0
/// \file
/// Draws of rows with filters by one read: parts of rows give their stairs, a block for each draw
/// takes the token from them. Of the few whose best stair stands too near to the filters' cut for
/// the parts' counters to tell, the block reads the row.
#pragma once

#include <gpu/job/row_source.hpp>
#include <gpu/sampling/results.hpp>
#include <gpu/sampling/rounds.hpp>
#include <gpu/sampling/stairs_cut.hpp>
#include <gpu/sampling/way.hpp>
#include <gpu/uninitialised.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// What the kernels of these draws leave to each other. A draw's number is draw * rows + row.
struct stair_draws {
  row_chunks chunks = {};
  stair_part* parts = nullptr;  ///< of draw d from d * chunks.count on
  counted_sum* sums = nullptr;  ///< `counters` of a part, if its elements are counted
  int counters = 0;

  [[nodiscard]] __device__ const stair_part* parts_of(std::int64_t number) const {
    return parts + number * chunks.count;
  }
  [[nodiscard]] __device__ counted_sum* sums_of(std::int64_t part) const {
    return sums == nullptr ? nullptr : sums + part * counters;
  }
};

template <int lanes, bool counts, class In>
__global__ void __launch_bounds__(reader_threads, least_resident(race_resident))
    stair_chunks(const row_source<In> source, const core::sample_problem problem,
                 const sample_ways ways, const stair_draws draws) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  __shared__ uninitialised<stair_memory<counts>> shared;
  let_next_begin();
  const std::int64_t number = blockIdx.x / static_cast<unsigned>(draws.chunks.count);
  const auto chunk = static_cast<int>(blockIdx.x % static_cast<unsigned>(draws.chunks.count));
  const std::int64_t row = number % source.rows;
  const core::sampling::parameters p = core::sampling::parameters_of(problem.options, row);
  if (ways.way_of(p) != sample_way::stairs) {
    return;
  }
  stair_race<lanes, counts, In>(
      race<In, false>::of(row_reader<In>::of(source.row(row), source.cols), p,
                          number / source.rows),
      core::sampling::min_p_depth(p.min_p), draws.chunks.begin(chunk),
      draws.chunks.end(chunk, source.cols), draws.counters, shared.get())
      .run(draws.parts[blockIdx.x], draws.sums_of(blockIdx.x));
}

template <int lanes, class In>
__global__ void __launch_bounds__(reader_threads, least_resident(2))
    stair_finish(const row_source<In> source, const core::sample_problem problem,
                 const sample_ways ways, const stair_draws draws) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  __shared__ uninitialised<cut_memory> shared;
  __shared__ uninitialised<round_memory> shared_rounds;
  round_memory& rounds = shared_rounds.get();
  const std::int64_t number = blockIdx.x;
  const std::int64_t row = number % source.rows;
  const std::int64_t draw = number / source.rows;
  const bool joint = problem.options.order == filter_order::joint;
  const core::sampling::parameters p = core::sampling::parameters_of(problem.options, row);
  const bool has_stairs = ways.way_of(p) == sample_way::stairs;
  const auto reader = row_reader<In>::of(source.row(row), source.cols);
  stair_cut<lanes, In> cut(reader, p, draw,
                           stair_filters::of(p, problem.options.order, source.cols),
                           draws.parts_of(number), draws.sums_of(number * draws.chunks.count),
                           draws.counters, draws.chunks, shared.get());
  wait_for_launch_before();
  let_next_begin();
  if (!has_stairs) {
    return;
  }
  draw_state state = cut.find();
  while (state.judged == verdict::unknown) {
    const auto measure = measure_of(reader, p, joint, state.top, state.winner);
    const near_measure near = measure.template nearly<lanes>(0, source.cols, rounds.measure);
    const auto judged = [&](std::int64_t equal) {
      return judge_nearly(near, equal, p, source.cols);
    };
    if (judged(near.equal_before) == verdict::kept) {
      state.judged = verdict::kept;
    } else if (judged(0) == verdict::removed) {
      state = cut.find(measure.x);
    } else {
      break;  // of equal elements the first may be kept
    }
  }
  if (state.judged != verdict::kept) {
    if (threadIdx.x == 0) {
      rounds.parameters = p;
    }
    find_in_rounds<lanes>(reader, joint, draw, state, rounds);
    state.winner = rounds.winner.column;
    state.kind = rounds.numbers.kind;
  }
  if (threadIdx.x == 0) {
    // Its key does not matter any more.
    write_drawn(problem, row, draw, {0, state.winner}, state.kind, 0);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
