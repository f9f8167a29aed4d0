// SPDX-License-Identifier: Apache-2.0
/// \file
/// Rows with filters, by a block: what they keep is a first part of the order, so the winner of all
/// is the token if it stands there; else what stands before it races again. Where the cut is does
/// not have to be known, only on which side of it the winner is. So many draws of a row are made,
/// and the few that stairs do not end.
#pragma once

#include <gpu/job/row_source.hpp>
#include <gpu/sampling/measure.hpp>
#include <gpu/sampling/race_chunks.hpp>
#include <gpu/sampling/results.hpp>
#include <gpu/sampling/way.hpp>
#include <gpu/uninitialised.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

constexpr int round_ahead = 2;

struct round_memory {
  finish_memory<reader_threads> race;
  measure_memory measure;
  core::sampling::runner winner;
  // What the rounds share of their row, to leave the passes their registers.
  core::sampling::parameters parameters;
  core::sampling::row_numbers numbers;
  race_limits limits;
};

/// By min-p; kept is only what no other filter cuts.
template <class In>
__device__ inline verdict judge_by_depth(const row_measure<In>& measure,
                                         const core::sampling::parameters& p) {
  const double z = core::sampling::scaled(measure.scale, static_cast<double>(measure.x));
  return !(measure.largest - z <= core::sampling::min_p_depth(p.min_p)) ? verdict::removed
         : cuts_k(p, measure.row.cols) || p.top_p < 1                   ? verdict::unknown
                                                                        : verdict::kept;
}
/// By top-k and top-p, of an element that so many equal ones stand before.
__device__ inline verdict judge_nearly(const near_measure& near, std::int64_t equal,
                                       const core::sampling::parameters& p, std::int64_t cols) {
  if (cuts_k(p, cols) && near.larger_count + equal >= p.top_k) {
    return verdict::removed;
  }
  constexpr float share = 0x1p-16F;
  constexpr float units = 0x1p-40F;  // what rounding masses to integers may do
  const float before = fmaf(static_cast<float>(equal), near.of_equal, near.larger);
  const float wanted = static_cast<float>(p.top_p) * near.whole;
  return !(p.top_p < 1) || before * (1 + share) + units < wanted * (1 - share) ? verdict::kept
         : before * (1 - share) > wanted * (1 + share) + units                 ? verdict::removed
                                                                               : verdict::unknown;
}

/// Whether the filters keep the winner; if not, the limits are set for the next round.
template <int lanes, class In>
__device__ inline bool keeps_winner(const row_reader<In>& row, bool joint, verdict judged,
                                    round_memory& memory) {
  namespace sampling = core::sampling;
  const sampling::parameters& p = memory.parameters;
  const row_measure<In> measure =
      measure_of(row, p, joint, static_cast<float>(memory.numbers.largest_x), memory.winner.column);
  if (judged == verdict::unknown) {
    judged = judge_by_depth(measure, p);
    if (judged == verdict::unknown) {
      const near_measure near = measure.template nearly<lanes>(0, row.cols, memory.measure);
      judged = judge_nearly(near, near.equal_before, p, row.cols);
    }
    if (judged == verdict::unknown) {
      judged = measure.template exactly<lanes>(0, row.cols, memory.measure.exact).keeps(p, row.cols)
                   ? verdict::kept
                   : verdict::removed;
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    memory.limits = {measure.x, memory.winner.column, sampling::min_p_depth(p.min_p)};
  }
  __syncthreads();
  return judged == verdict::kept;
}

/// How many elements of a row are kept, and their mass: all, or the first alone.
template <int lanes, class In>
__device__ inline void count_kept(const row_reader<In>& row, round_memory& memory) {
  namespace sampling = core::sampling;
  const bool draws =
      memory.numbers.kind == sampling::row_kind::ordinary && memory.parameters.temperature != 0;
  measured_row exact = {};
  if (draws) {
    const row_measure<In> measure = {row,
                                     sampling::scale_of<float>(memory.parameters.temperature),
                                     memory.numbers.largest,
                                     std::numeric_limits<double>::infinity(),
                                     0,
                                     0};
    exact = measure.template exactly<lanes>(0, row.cols, memory.measure.exact);
  }
  if (threadIdx.x == 0) {
    const bool one = memory.numbers.kind == sampling::row_kind::ordinary ||
                     memory.numbers.kind == sampling::row_kind::infinite;
    memory.numbers.kept = draws ? exact.whole_count : one ? 1 : 0;
    memory.numbers.kept_weight = exact.whole;
  }
}

/// The winner's log-probability as the filters leave it, if it is wanted.
template <class In>
__device__ inline double log_of_winner(const row_reader<In>& row, const sample_ways& ways,
                                       const round_memory& memory) {
  namespace sampling = core::sampling;
  if (!ways.wants_kept || memory.parameters.temperature == 0 ||
      memory.numbers.kind != sampling::row_kind::ordinary) {
    return 0;
  }
  const double x = static_cast<double>(widen(row.x[memory.winner.column]));
  const double z = sampling::scaled(sampling::scale_of<float>(memory.parameters.temperature), x);
  return sampling::log_probability(memory.numbers.largest, z, memory.numbers.kept_weight);
}

/// A draw's winner, for a row's `memory.parameters`, from what is known of it.
template <int lanes, class In>
__device__ inline void find_in_rounds(const row_reader<In>& row, bool joint, std::int64_t draw,
                                      const draw_state& known, round_memory& memory) {
  namespace sampling = core::sampling;
  sampling::row_numbers& numbers = memory.numbers;
  const sampling::parameters& p = memory.parameters;
  bool is_raced = known.judged != verdict::unraced;
  __syncthreads();
  if (threadIdx.x == 0) {
    memory.limits = {.depth = sampling::min_p_depth(p.min_p)};
    memory.winner.column = known.winner;
    numbers.largest_x = static_cast<double>(known.top);
    numbers.kind = known.kind;
  }
  __syncthreads();
  for (bool is_first = true;; is_first = false) {
    if (!is_raced) {
      const auto racer = race<In, true>::of(row, p, draw, memory.limits);
      racer.template run<lanes, round_ahead>(
          0, row.cols, memory.race.parts[0],
          is_first ? -infinity<float> : static_cast<float>(numbers.largest_x), [](const auto&) {});
      take_part(row.cols, memory.race);
      find_winner(racer, memory.race);
      if (threadIdx.x == 0) {
        memory.winner = memory.race.winner;
        if (is_first) {
          numbers.largest_x = static_cast<double>(core::value_of_key<float>(memory.race.top));
          numbers.kind = kind_of(memory.winner);
        }
      }
      __syncthreads();
    }
    if (numbers.kind != sampling::row_kind::ordinary || p.temperature == 0 ||
        keeps_winner<lanes>(row, joint, is_raced ? known.judged : verdict::unknown, memory)) {
      break;
    }
    is_raced = false;
  }
}

/// The draws of a list, whose states these are; without numbers all draws of the rows that go this
/// way.
template <int lanes, class In>
__global__ void __launch_bounds__(reader_threads, least_resident(2))
    sample_in_rounds(const row_source<In> source, const core::sample_problem given,
                     const sample_ways ways, const draw_list list, const draw_state* states) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  namespace sampling = core::sampling;
  __shared__ uninitialised<round_memory> shared;
  round_memory& memory = shared.get();
  sampling::row_numbers& numbers = memory.numbers;
  const sampling::parameters& p = memory.parameters;
  const bool joint = given.options.order == filter_order::joint;
  wait_for_launch_before();
  const bool is_listed = list.numbers != nullptr;
  const std::int64_t count = is_listed ? *list.count : source.rows;
  const std::int64_t draws = is_listed ? 1 : given.tokens.cols;
  for (std::int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    const std::int64_t number = is_listed ? list.numbers[i] : i;
    const std::int64_t row = number % source.rows;
    const auto reader = row_reader<In>::of(source.row(row), source.cols);
    __syncthreads();
    if (threadIdx.x == 0) {
      memory.parameters = sampling::parameters_of(given.options, row);
      memory.numbers = sampling::row_numbers{};
    }
    __syncthreads();
    if (!is_listed && ways.way_of(p) != sample_way::rounds) {
      continue;
    }
    for (std::int64_t j = 0; j < draws || j == 0; ++j) {
      const std::int64_t draw = number / source.rows + j;
      const draw_state state = is_listed ? states[number] : draw_state{.judged = verdict::unraced};
      find_in_rounds<lanes>(reader, joint, draw, state, memory);
      if (threadIdx.x == 0) {
        numbers.largest =
            sampling::scaled(sampling::scale_of<float>(p.temperature), numbers.largest_x);
      }
      __syncthreads();
      if (ways.wants_kept && j == 0) {
        count_kept<lanes>(reader, memory);
      }
      if (threadIdx.x == 0) {
        if (draw == 0 && given.options.kept.data != nullptr) {
          core::write_integer(given.options.kept.data, given.options.kept.type, row, numbers.kept);
        }
        if (draw < given.tokens.cols) {
          write_drawn(given, row, draw, memory.winner, numbers.kind,
                      log_of_winner(reader, ways, memory));
        }
      }
    }
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
