// SPDX-License-Identifier: Apache-2.0
/// \file
/// Draws of rows with filters by one read: parts of rows give their stairs, a block for each draw
/// takes the token from them. The few whose best stair stands too near to the filters' cut for the
/// numbers of elements to tell have their masses added up by a second read, over all blocks.
#pragma once

#include <gpu/job/row_source.hpp>
#include <gpu/sampling/measure.hpp>
#include <gpu/sampling/race_chunks.hpp>
#include <gpu/sampling/results.hpp>
#include <gpu/sampling/stairs_cut.hpp>
#include <gpu/sampling/way.hpp>
#include <gpu/uninitialised.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// What the kernels of these draws leave to each other. A draw's number is draw * rows + row.
struct stair_draws {
  row_chunks chunks = {};
  int blocks = 0;                    ///< of a second read
  stair_part* parts = nullptr;       ///< of draw d from d * chunks.count on
  std::uint32_t* counted = nullptr;  ///< stair_window::bins of a part, if any are counted
  draw_state* states = nullptr;
  draw_list unknown = {};            ///< draws to be measured; without numbers: none are
  draw_list rest = {};               ///< draws that sample_in_rounds ends
  measured_row* measures = nullptr;  ///< of the draws of `unknown`, in its order

  [[nodiscard]] __device__ const stair_part* parts_of(std::int64_t number) const {
    return parts + number * chunks.count;
  }
  [[nodiscard]] __device__ const std::uint32_t* counted_of(std::int64_t number) const {
    return counted + number * chunks.count * stair_window::bins;
  }
};

template <int lanes, bool counts, class In>
__global__ void __launch_bounds__(reader_threads, least_resident(race_resident))
    stair_chunks(const row_source<In> source, const core::sample_problem problem,
                 const sample_ways ways, const stair_draws draws, int* cleared) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  __shared__ uninitialised<stair_memory<counts>> shared;
  let_next_begin();
  clear_lists(cleared);
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
      draws.chunks.end(chunk, source.cols), shared.get())
      .run(draws.parts[blockIdx.x],
           counts ? draws.counted + std::int64_t{blockIdx.x} * stair_window::bins : nullptr);
}

/// Writes the token of a draw, or leaves the draw to another kernel.
__device__ inline void end_draw(const core::sample_problem& problem, const stair_draws& draws,
                                std::int64_t number, const draw_state& state, bool may_measure) {
  const std::int64_t rows = problem.x.rows;
  if (state.judged == verdict::kept) {
    // Its key does not matter any more.
    write_drawn(problem, number % rows, number / rows, {0, state.winner}, state.kind, 0);
    return;
  }
  draws.states[number] = state;
  if (state.judged == verdict::unknown && may_measure && draws.unknown.numbers != nullptr) {
    draws.measures[draws.unknown.append(number)] = measured_row{};
  } else {
    draws.rest.append(number);
  }
}

template <int lanes, class In>
__global__ void __launch_bounds__(reader_threads, least_resident(2))
    stair_finish(const row_source<In> source, const core::sample_problem problem,
                 const sample_ways ways, const stair_draws draws) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  __shared__ uninitialised<cut_memory> shared;
  const std::int64_t number = blockIdx.x;
  const std::int64_t row = number % source.rows;
  const core::sampling::parameters p = core::sampling::parameters_of(problem.options, row);
  const bool has_stairs = ways.way_of(p) == sample_way::stairs;
  stair_cut<lanes, In> cut(
      row_reader<In>::of(source.row(row), source.cols), p, number / source.rows,
      stair_filters::of(p, problem.options.order, source.cols), draws.parts_of(number),
      draws.counted_of(number), draws.chunks, shared.get());
  wait_for_launch_before();
  let_next_begin();
  if (!has_stairs) {
    return;
  }
  const draw_state& state = cut.find();
  if (threadIdx.x == 0) {
    end_draw(problem, draws, number, state, true);
  }
}

/// Adds up what stands before the best stairs of the draws that are unknown.
template <int lanes, class In>
__global__ void __launch_bounds__(reader_threads)
    stair_measure(const row_source<In> source, const core::sample_problem problem,
                  const stair_draws draws) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  __shared__ uninitialised<measured_row> shared;
  wait_for_launch_before();
  let_next_begin();
  const std::int64_t count = *draws.unknown.count;
  if (count == 0) {
    return;
  }
  // Short chunks: an element takes 40 instructions of f64.
  constexpr std::int64_t step = std::int64_t{reader_threads} * block_columns;
  const std::int64_t most = (draws.blocks + count - 1) / count;
  const std::int64_t each = (source.cols + most * step - 1) / (most * step) * step;
  const row_chunks chunks = {static_cast<int>((source.cols + each - 1) / each), each};
  const bool joint = problem.options.order == filter_order::joint;
  for (std::int64_t b = blockIdx.x; b < count * chunks.count; b += gridDim.x) {
    const std::int64_t number = draws.unknown.numbers[b / chunks.count];
    const auto chunk = static_cast<int>(b % chunks.count);
    const std::int64_t row = number % source.rows;
    const draw_state& state = draws.states[number];
    const measured_row& own =
        measure_of(row_reader<In>::of(source.row(row), source.cols),
                   core::sampling::parameters_of(problem.options, row), joint, state.top,
                   state.winner)
            .template exactly<lanes>(chunks.begin(chunk), chunks.end(chunk, source.cols),
                                     shared.get());
    measured_row& whole = draws.measures[b / chunks.count];
    switch (threadIdx.x) {
      case 0:
        add_to(whole.before, own.before);
        break;
      case lanes:
        add_to(whole.larger, own.larger);
        break;
      case 2 * lanes:
        add_to(whole.whole, own.whole);
        break;
      case 3 * lanes:
        add_to(whole.before_count, own.before_count);
        add_to(whole.larger_count, own.larger_count);
        break;
      default:
        break;
    }
  }
}

template <int lanes, class In>
__global__ void __launch_bounds__(reader_threads, least_resident(2))
    stair_judge(const row_source<In> source, const core::sample_problem problem,
                const stair_draws draws) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  namespace sampling = core::sampling;
  __shared__ uninitialised<cut_memory> shared;
  wait_for_launch_before();
  let_next_begin();
  const std::int64_t count = *draws.unknown.count;
  for (std::int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    const std::int64_t number = draws.unknown.numbers[i];
    const std::int64_t row = number % source.rows;
    const sampling::parameters p = sampling::parameters_of(problem.options, row);
    const measured_row& measured = draws.measures[i];
    draw_state state = draws.states[number];
    if (measured.keeps(p, source.cols)) {
      state.judged = verdict::kept;
    } else if (measured.keeps_first_equal(p, source.cols)) {
      state.judged = verdict::removed;  // and what is next may be equal to it, which hides it
    } else {
      const auto reader = row_reader<In>::of(source.row(row), source.cols);
      stair_cut<lanes, In> cut(
          reader, p, number / source.rows, stair_filters::of(p, problem.options.order, source.cols),
          draws.parts_of(number), draws.counted_of(number), draws.chunks, shared.get());
      state = cut.find(reader.element(state.winner));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      end_draw(problem, draws, number, state, false);
    }
    __syncthreads();
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
