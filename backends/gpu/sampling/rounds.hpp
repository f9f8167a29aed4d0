// SPDX-License-Identifier: Apache-2.0
/// \file
/// Rows with filters, a block each: what the filters keep is a first part of the order, so the
/// winner of all is the token if it stands there; else what stands before it races again. Where the
/// cut is does not have to be known, only on which side of it the winner is.
#pragma once

#include <gpu/job/row_source.hpp>
#include <gpu/sampling/measure.hpp>
#include <gpu/sampling/race.hpp>
#include <gpu/sampling/results.hpp>
#include <gpu/sampling/way.hpp>
#include <gpu/uninitialised.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Two blocks of a multiprocessor need no memory for registers then.
constexpr int round_threads = 384;
constexpr int round_ahead = 2;

struct round_memory {
  race_memory<round_threads> race;
  measure_memory measure;
  core::sampling::runner winner;
  // What the rounds share of their row, to leave the passes their registers.
  core::sampling::parameters parameters;
  core::sampling::row_numbers numbers;
  race_limits limits;
};

/// Whether the filters keep the winner; if not, the limits are set for the next round.
template <int lanes, class In>
__device__ inline bool keeps_winner(const row_reader<In>& row, bool joint, round_memory& memory) {
  namespace sampling = core::sampling;
  constexpr double infinite = std::numeric_limits<double>::infinity();
  const sampling::parameters& p = memory.parameters;
  const float x = widen(row.x[memory.winner.column]);
  const double scale = sampling::scale_of<float>(p.temperature);
  const double largest = memory.numbers.largest;
  const double depth = sampling::min_p_depth(p.min_p);
  const bool cuts_k = p.top_k > 0 && p.top_k < row.cols;
  const bool cuts_p = p.top_p < 1;
  const auto is_kept = [&] {
    if (!(largest - sampling::scaled(scale, static_cast<double>(x)) <= depth)) {
      return false;
    }
    if (!cuts_k && !cuts_p) {
      return true;
    }
    const row_measure<In> measure = {row,
                                     scale,
                                     largest,
                                     joint ? infinite : depth,
                                     x,
                                     memory.winner.column,
                                     static_cast<float>(memory.numbers.largest_x)};
    if (joint || p.min_p == 0) {  // no depth to be exact about
      float before = 0;
      float whole = 0;
      std::int64_t count = 0;
      measure.template nearly<lanes>(memory.measure, before, whole, count);
      if (cuts_k && count >= p.top_k) {
        return false;
      }
      if (!cuts_p) {
        return true;
      }
      constexpr float share = 0x1p-11F;
      constexpr float units = 0x1p-40F;  // what rounding masses to integers may do
      const float wanted = static_cast<float>(p.top_p) * whole;
      if (before * (1 + share) + units < wanted * (1 - share)) {
        return true;
      }
      if (before * (1 - share) > wanted * (1 + share) + units) {
        return false;
      }
    }
    const measured_row exact = measure.template exactly<lanes>(memory.measure);
    if (cuts_k && exact.before_count >= p.top_k) {
      return false;
    }
    return !cuts_p || !exact.before.reaches(sampling::share_of(p.top_p, exact.whole));
  };
  if (is_kept()) {
    return true;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    memory.limits = {x, memory.winner.column, largest, depth};
  }
  __syncthreads();
  return false;
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
    exact = measure.template exactly<lanes>(memory.measure);
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

/// Rows of the way sample_way::rounds.
template <int lanes, class In>
__global__ void __launch_bounds__(round_threads, least_resident(2))
    sample_in_rounds(const row_source<In> source, const core::sample_problem given,
                     const sample_ways ways, const raw_row* raws) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  namespace sampling = core::sampling;
  __shared__ uninitialised<round_memory> shared;
  round_memory& memory = shared.get();
  const std::int64_t row = blockIdx.x;
  {
    const sampling::parameters p = sampling::parameters_of(given.options, row);
    if (ways.way_of(p) != sample_way::rounds) {
      return;
    }
    if (threadIdx.x == 0) {
      memory.parameters = p;
      memory.numbers = sampling::row_numbers{};
    }
    __syncthreads();
  }
  const sampling::parameters& p = memory.parameters;
  sampling::row_numbers& numbers = memory.numbers;
  const auto reader = row_reader<In>::of(source.row(row), source.cols);
  const bool joint = given.options.order == filter_order::joint;
  for (int draw = 0; draw < given.tokens.cols || draw == 0; ++draw) {
    sampling::runner winner = race<In, false>::of(reader, p, draw)
                                  .template run<true, round_ahead>(0, source.cols, memory.race);
    if (threadIdx.x == 0) {
      const float top = core::value_of_key<float>(memory.race.top);
      numbers.largest = race<In, false>::of(reader, p, draw).z_of(top);
      numbers.largest_x = static_cast<double>(top);
      numbers.kind = kind_of(winner);
    }
    while (true) {
      if (threadIdx.x == 0) {
        memory.winner = winner;
      }
      __syncthreads();
      if (numbers.kind != sampling::row_kind::ordinary || p.temperature == 0 ||
          keeps_winner<lanes>(reader, joint, memory)) {
        break;
      }
      winner = race<In, true>::of(reader, p, draw, &memory.limits)
                   .template run<false, round_ahead>(0, source.cols, memory.race);
    }
    if (draw == 0 && ways.wants_kept) {
      count_kept<lanes>(reader, memory);
    }
    if (threadIdx.x == 0) {
      if (draw == 0 && given.options.kept.data != nullptr) {
        core::write_integer(given.options.kept.data, given.options.kept.type, row, numbers.kept);
      }
      if (draw < given.tokens.cols) {
        write_drawn<In>(given, row, draw, memory.winner, numbers.kind,
                        log_of_winner(reader, ways, memory), raws);
      }
    }
    __syncthreads();
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
