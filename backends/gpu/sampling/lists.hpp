// SPDX-License-Identifier: Apache-2.0
/// \file
/// Rows of which few first elements are kept: the tokens from the rows' top-k lists, a thread for
/// each element.
#pragma once

#include <gpu/row/vector_elements.hpp>
#include <gpu/sampling/race.hpp>
#include <gpu/sampling/results.hpp>
#include <gpu/sampling/way.hpp>
#include <gpu/uninitialised.hpp>

#include <core/sample_row.hpp>

#include <cstdint>
#include <limits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

constexpr int list_threads = sample_ways::most_listed;

/// What the threads of a list share.
struct list_memory {
  double keys[list_threads];
  std::int64_t columns[list_threads];
  std::uint64_t weights[list_threads];
  double first;
  core::sampling::row_numbers numbers;
};

template <class In>
__global__ void __launch_bounds__(list_threads)
    sample_from_lists(const core::sample_problem problem, const sample_ways ways,
                      const sample_lists lists) {
  namespace sampling = core::sampling;
  using A = arithmetic_t<In>;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  __shared__ uninitialised<list_memory> shared;
  list_memory& memory = shared.get();
  wait_for_launch_before();
  const std::int64_t row = blockIdx.x;
  const auto thread = static_cast<int>(threadIdx.x);
  const sampling::parameters p = sampling::parameters_of(problem.options, row);
  if (ways.way_of(p) != sample_way::list) {
    return;
  }
  const bool greedy = p.temperature == 0;
  const bool exists = thread < lists.values.cols && thread < p.top_k;
  const A x =
      exists ? widen(static_cast<const In*>(lists.values.data)[row * lists.values.stride + thread])
             : -gpu::infinity<A>;
  const std::int64_t column = exists ? core::integer_at(lists.columns.data, lists.columns.type,
                                                        row * lists.columns.stride + thread)
                                     : 0;
  const double scale = greedy ? 1 : sampling::scale_of<A>(p.temperature);
  const double z = sampling::scaled(scale, static_cast<double>(x));
  if (thread == 0) {
    memory.first = z;
    memory.numbers = sampling::row_numbers{};
    const double element = static_cast<double>(x);
    memory.numbers.kind = element != element     ? sampling::row_kind::nan
                          : element == -infinity ? sampling::row_kind::empty
                          : element == infinity  ? sampling::row_kind::infinite
                                                 : sampling::row_kind::ordinary;
  }
  __syncthreads();
  const double largest = memory.first;
  bool kept = z > -infinity && largest - z <= sampling::min_p_depth(p.min_p);
  memory.weights[thread] = kept ? sampling::weight_of(largest - z) : 0;
  memory.keys[thread] = kept ? 1 : 0;
  __syncthreads();
  if (thread == 0) {
    sampling::row_numbers& numbers = memory.numbers;
    if (numbers.kind == sampling::row_kind::ordinary) {
      // What is kept are the first elements.
      sampling::mass all;
      int count = 0;
      for (; count < list_threads && memory.keys[count] != 0; ++count) {
        all.add(memory.weights[count]);
      }
      if (greedy) {
        count = 1;
      } else if (p.top_p < 1) {
        const sampling::mass target = sampling::share_of(p.top_p, all);
        all = {};
        count = 0;
        do {
          all.add(memory.weights[count]);
          ++count;
        } while (!all.reaches(target));
      }
      numbers.kept = count;
      numbers.kept_weight = all;
    } else {
      numbers.kept = numbers.kind == sampling::row_kind::infinite ? 1 : 0;
    }
    sampling::write_numbers(problem.options, row, numbers);
  }
  __syncthreads();
  const sampling::row_kind kind = memory.numbers.kind;
  kept = thread < memory.numbers.kept;
  for (std::int64_t draw = 0; draw < problem.tokens.cols; ++draw) {
    sampling::runner own;
    if (kept) {
      const sampling::noise noise = {p.seed, p.offset, static_cast<std::uint32_t>(draw)};
      own = {kind == sampling::row_kind::ordinary && !greedy
                 ? sampling::key_of(z, sampling::random_bits(noise, column))
                 : z,
             column};
    }
    // The winner writes its own token.
    const sampling::runner best = best_of_block(own, memory.keys, memory.columns);
    if (thread == 0) {
      memory.columns[0] = best.column;
    }
    __syncthreads();
    if (memory.numbers.kept > 0 ? kept && column == memory.columns[0] : thread == 0) {
      const double log = greedy || kind != sampling::row_kind::ordinary
                             ? 0
                             : sampling::log_probability(largest, z, memory.numbers.kept_weight);
      write_drawn(problem, row, draw, {z, column}, kind, log);
    }
    __syncthreads();
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
