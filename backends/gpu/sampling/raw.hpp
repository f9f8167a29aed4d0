// SPDX-License-Identifier: Apache-2.0
/// \file
/// What is wanted of rows as they are: log-probabilities and their logsumexp, a block each.
#pragma once

#include <gpu/job/row_source.hpp>
#include <gpu/sampling/measure.hpp>
#include <gpu/sampling/race.hpp>
#include <gpu/sampling/results.hpp>
#include <gpu/uninitialised.hpp>

#include <cstdint>
#include <limits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

constexpr int raw_threads = 384;

struct raw_memory {
  race_memory<raw_threads> race;
  measure_memory measure;
  core::sampling::runner winner;
};

/// raws, for the tokens' kernels, and the results that need no token.
template <int lanes, class In>
__global__ void __launch_bounds__(raw_threads, least_resident(2))
    sample_raw_rows(const row_source<In> source, const sample_options options, raw_row* raws) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  namespace sampling = core::sampling;
  constexpr double infinite = std::numeric_limits<double>::infinity();
  __shared__ uninitialised<raw_memory> shared;
  raw_memory& memory = shared.get();
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
  raw_row raw = {kind_of(first), first.key, {}};
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
