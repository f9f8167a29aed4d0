// SPDX-License-Identifier: Apache-2.0
/// \file
/// What is wanted of rows as they are: log-probabilities and their logsumexp. Chunks of rows find
/// the largest element, then masses relative to it.
#pragma once

#include <gpu/group/combine.hpp>
#include <gpu/job/row_source.hpp>
#include <gpu/sampling/measure.hpp>
#include <gpu/sampling/race_chunks.hpp>
#include <gpu/sampling/results.hpp>
#include <gpu/uninitialised.hpp>

#include <cstdint>
#include <limits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

struct raw_part {
  core::sampling::mass weight;
  float top;  ///< NaN if there is one
};

/// The largest of the block's threads' numbers, NaN if one is NaN; to all of them.
template <int lanes>
__device__ inline float max_of_block(float own) {
  __shared__ float tops[race_threads / lanes];
  own = max_over_lanes(own, lanes);
  __syncthreads();
  if (threadIdx.x % lanes == 0) {
    tops[threadIdx.x / lanes] = own;
  }
  __syncthreads();
  own = tops[0];
  for (int i = 1; i < race_threads / lanes; ++i) {
    own = max_or_nan(own, tops[i]);
  }
  return own;
}

/// The largest elements of chunks.
template <int lanes, class In>
__global__ void __launch_bounds__(race_threads)
    raw_tops(const row_source<In> source, const race_cut cut, raw_part* parts) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  let_next_begin();
  const auto row = static_cast<std::int64_t>(blockIdx.x / static_cast<unsigned>(cut.chunks));
  const auto chunk = static_cast<int>(blockIdx.x % static_cast<unsigned>(cut.chunks));
  const auto reader = row_reader<In>::of(source.row(row), source.cols);
  constexpr int ahead = race_ahead<In>;
  constexpr int step = race_threads * race_columns;
  float top = -infinity<float>;
  for (std::int64_t first = cut.begin(chunk); first < cut.end(chunk, source.cols);
       first += ahead * step) {
    race_block<In> blocks[ahead];
    reader.template load<step>(first, blocks);
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      top = max_or_nan(top, blocks[a].largest());
    }
  }
  top = max_of_block<lanes>(top);
  if (threadIdx.x == 0) {
    parts[blockIdx.x].top = top;
  }
}

/// The largest element of a row, of its chunks; to all threads.
template <int lanes>
__device__ inline float top_of(const raw_part* parts, int chunks) {
  float top = -infinity<float>;
  for (auto i = static_cast<int>(threadIdx.x); i < chunks; i += race_threads) {
    top = max_or_nan(top, parts[i].top);
  }
  return max_of_block<lanes>(top);
}

__device__ inline core::sampling::row_kind kind_of_top(float top) {
  using core::sampling::row_kind;
  return top != top                ? row_kind::nan
         : top == -infinity<float> ? row_kind::empty
         : top == infinity<float>  ? row_kind::infinite
                                   : row_kind::ordinary;
}

/// The masses of ordinary rows' chunks.
template <int lanes, class In>
__global__ void __launch_bounds__(race_threads)
    raw_masses(const row_source<In> source, const race_cut cut, raw_part* parts) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  namespace sampling = core::sampling;
  __shared__ uninitialised<sampling::mass> weight;
  wait_for_launch_before();
  let_next_begin();
  const auto row = static_cast<std::int64_t>(blockIdx.x / static_cast<unsigned>(cut.chunks));
  const auto chunk = static_cast<int>(blockIdx.x % static_cast<unsigned>(cut.chunks));
  const float top = top_of<lanes>(parts + row * cut.chunks, cut.chunks);
  if (kind_of_top(top) != sampling::row_kind::ordinary) {
    return;
  }
  if (threadIdx.x == 0) {
    weight.get() = {};
  }
  __syncthreads();
  const auto reader = row_reader<In>::of(source.row(row), source.cols);
  constexpr std::int64_t step = std::int64_t{race_threads} * race_columns;
  const auto largest = static_cast<double>(top);
  sampling::mass own;
  for (std::int64_t first = cut.begin(chunk) + std::int64_t{threadIdx.x} * race_columns;
       first < cut.end(chunk, source.cols); first += step) {
    race_block<In> block;
    reader.load(first, block);
#pragma unroll
    for (int i = 0; i < race_columns; ++i) {
      own.add(sampling::weight_of(largest - static_cast<double>(block.element(i))));
    }
  }
  add_over_block<lanes>(own, weight.get());
  __syncthreads();
  if (threadIdx.x == 0) {
    parts[blockIdx.x].weight = weight.get();
  }
}

/// raws, for the tokens' kernels, and the results that need no token.
template <int lanes, class In>
__global__ void __launch_bounds__(race_threads)
    raw_finish(const sample_options options, const race_cut cut, const raw_part* parts,
               raw_row* raws) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  namespace sampling = core::sampling;
  constexpr double infinite = std::numeric_limits<double>::infinity();
  __shared__ uninitialised<raw_row> shared;
  wait_for_launch_before();
  const std::int64_t row = blockIdx.x;
  parts += row * cut.chunks;
  const float top = top_of<lanes>(parts, cut.chunks);
  raw_row& raw = shared.get();
  if (threadIdx.x == 0) {
    raw = {kind_of_top(top), static_cast<double>(top), {}};
  }
  __syncthreads();
  if (raw.kind == sampling::row_kind::ordinary) {
    sampling::mass own;
    for (auto i = static_cast<int>(threadIdx.x); i < cut.chunks; i += race_threads) {
      own.add(parts[i].weight);
    }
    add_over_block<lanes>(own, raw.weight);
  }
  __syncthreads();
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
  const matrix_ref& log_probabilities = options.top_log_probabilities;
  if (log_probabilities.data != nullptr) {
    for (std::int64_t i = threadIdx.x; i < log_probabilities.cols; i += blockDim.x) {
      const std::int64_t at = row * log_probabilities.stride + i;
      sampling::write_result(
          log_probabilities.data, log_probabilities.type, at,
          raw.log_of(core::real_at<double>(log_probabilities.data, log_probabilities.type, at)));
    }
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
