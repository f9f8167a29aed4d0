// SPDX-License-Identifier: Apache-2.0
/// \file
/// Rows with filters, a block each: what the filters keep is a first part of the order, so the
/// winner of all is the token if it stands there; else what stands before it races again. Where the
/// cut is does not have to be known, only on which side of it the winner is.
#pragma once

#include <gpu/sampling/measure.hpp>
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

template <class In>
__device__ inline void write_winner_of_rounds(const core::sample_problem& problem,
                                              const sample_ways& ways, const raw_row* raws,
                                              const row_reader<In>& row, std::int64_t r,
                                              std::int64_t draw, const round_memory& memory) {
  namespace sampling = core::sampling;
  const sampling::row_numbers& numbers = memory.numbers;
  const bool ordinary = numbers.kind == sampling::row_kind::ordinary;
  const bool exists = ordinary || numbers.kind == sampling::row_kind::infinite;
  const double x = exists ? static_cast<double>(widen(row.x[memory.winner.column])) : 0;
  double log = sampling::log_probability_of(numbers.kind);
  if (ordinary && memory.parameters.temperature == 0) {
    log = 0;
  } else if (ordinary && ways.wants_kept) {
    const double scale = sampling::scale_of<float>(memory.parameters.temperature);
    log =
        sampling::log_probability(numbers.largest, sampling::scaled(scale, x), numbers.kept_weight);
  }
  const bool wants_raw = exists && problem.options.raw_log_probability.data != nullptr;
  sampling::write_token(problem, r, draw, exists ? memory.winner.column : -1, log,
                        wants_raw ? raws[r].log_of(x) : log);
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
  constexpr double infinite = std::numeric_limits<double>::infinity();
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
      numbers.kind = winner.column == nan_column                  ? sampling::row_kind::nan
                     : winner.column == sampling::runner{}.column ? sampling::row_kind::empty
                     : winner.key == infinite                     ? sampling::row_kind::infinite
                                                                  : sampling::row_kind::ordinary;
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
        write_winner_of_rounds(given, ways, raws, reader, row, draw, memory);
      }
    }
    __syncthreads();
  }
}

/// What is wanted of rows as they are, a block each: raws, if tokens need them, and the results.
template <int lanes, class In>
__global__ void __launch_bounds__(round_threads, least_resident(2))
    sample_raw_rows(const row_source<In> source, const sample_options options, raw_row* raws) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  namespace sampling = core::sampling;
  constexpr double infinite = std::numeric_limits<double>::infinity();
  __shared__ uninitialised<round_memory> shared;
  round_memory& memory = shared.get();
  const std::int64_t row = blockIdx.x;
  const auto reader = row_reader<In>::of(source.row(row), source.cols);
  // The race without noise is for the largest element.
  const sampling::runner best = race<In, false>::of(reader, {.temperature = 0}, 0)
                                    .template run<false>(0, source.cols, memory.race);
  if (threadIdx.x == 0) {
    memory.winner = best;
  }
  __syncthreads();
  const sampling::runner first = memory.winner;
  raw_row raw = {sampling::row_kind::ordinary, first.key, {}};
  raw.kind = first.column == nan_column                  ? sampling::row_kind::nan
             : first.column == sampling::runner{}.column ? sampling::row_kind::empty
             : first.key == infinite                     ? sampling::row_kind::infinite
                                                         : sampling::row_kind::ordinary;
  if (raw.kind == sampling::row_kind::ordinary) {
    const row_measure<In> measure = {reader, 1, raw.largest, infinite, 0, 0};
    raw.weight = measure.template exactly<lanes>(memory.measure).whole;
  }
  if (threadIdx.x == 0) {
    raws[row] = raw;
    if (options.lse.data != nullptr) {
      const double lse =
          raw.kind == sampling::row_kind::nan        ? std::numeric_limits<double>::quiet_NaN()
          : raw.kind == sampling::row_kind::empty    ? -infinite
          : raw.kind == sampling::row_kind::infinite ? infinite
                                                     : raw.largest + sampling::log_of(raw.weight);
      sampling::write_result(options.lse.data, options.lse.type, row, lse);
    }
  }
  const matrix_ref& top = options.top_log_probabilities;
  if (top.data != nullptr) {
    for (std::int64_t i = threadIdx.x; i < top.cols; i += blockDim.x) {
      const std::int64_t at = row * top.stride + i;
      sampling::write_result(top.data, top.type, at,
                             raw.log_of(core::real_at<double>(top.data, top.type, at)));
    }
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
