// SPDX-License-Identifier: Apache-2.0
/// \file
/// Rows of which few first elements are kept: the tokens from the rows' top-k lists, a thread for
/// each element. Where the lists are of spans, a row's are merged first.
#pragma once

#include <gpu/group/combine.hpp>
#include <gpu/row/vector_elements.hpp>
#include <gpu/sampling/race.hpp>
#include <gpu/sampling/results.hpp>
#include <gpu/sampling/way.hpp>
#include <gpu/topk/lists.hpp>
#include <gpu/uninitialised.hpp>

#include <core/sample_row.hpp>

#include <cstdint>
#include <limits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

constexpr int list_threads = sample_ways::most_listed;

/// What the warps of a list share.
template <int lanes, int threads>
struct list_memory {
  static constexpr int warps = threads / lanes;

  std::uint64_t weights[warps];
  int kept[warps];                        ///< elements
  std::uint64_t kept_weights[warps];      ///< up to the last of them
  core::sampling::runner best[2][warps];  ///< of this draw and the last
};

/// Member by member: compilers would choose between places in memory.
__device__ inline void take_better(const core::sampling::runner& other,
                                   core::sampling::runner& best) {
  const bool is_better = other.beats(best);
  best.key = is_better ? other.key : best.key;
  best.column = is_better ? other.column : best.column;
}
template <int lanes>
__device__ inline core::sampling::runner best_over_warp(core::sampling::runner best) {
  for (int mask = lanes / 2; mask > 0; mask /= 2) {
    take_better({shuffle_xor(best.key, mask), shuffle_xor(best.column, mask)}, best);
  }
  return best;
}

/// A row's parameters, and what follows from them.
template <class A>
struct list_parameters {
  core::sampling::parameters of_row;
  bool is_listed;
  bool greedy;
  double scale;
  double depth;

  __device__ list_parameters(const core::sample_problem& problem, const sample_ways& ways,
                             std::int64_t row)
      : of_row(core::sampling::parameters_of(problem.options, row)),
        is_listed(ways.way_of(of_row) == sample_way::list),
        greedy(of_row.temperature == 0),
        scale(greedy ? 1 : core::sampling::scale_of<A>(of_row.temperature)),
        depth(core::sampling::min_p_depth(of_row.min_p)) {}
};

/// What a thread has of a row's list.
struct list_element {
  double first;  ///< of the list
  double x;      ///< -infinity: no element
  std::int64_t column;
};

/// The tokens of a row by all threads of a block, whose elements are the list's.
template <int lanes, class A, class Memory>
__device__ inline void draw_from_list(const core::sample_problem& problem,
                                      const list_parameters<A>& of, std::int64_t row,
                                      const list_element& element, Memory& memory) {
  namespace sampling = core::sampling;
  using sampling::row_kind;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / lanes;
  const sampling::parameters& p = of.of_row;
  const bool greedy = of.greedy;
  const double first = element.first;
  const double x = element.x;
  const std::int64_t column = element.column;
  const row_kind kind = first != first       ? row_kind::nan
                        : first == -infinity ? row_kind::empty
                        : first == infinity  ? row_kind::infinite
                                             : row_kind::ordinary;
  const double largest = sampling::scaled(of.scale, first);
  const double z = sampling::scaled(of.scale, x);
  // The first elements, as they stand in order.
  const bool deep_enough = z > -infinity && largest - z <= of.depth;
  const std::uint64_t weight = deep_enough ? sampling::weight_of(largest - z) : 0;

  std::uint64_t up_to_own[] = {weight};
  sum_up_to_lane<lanes>(up_to_own);  // 64 of 2^50 at most
  std::uint64_t up_to = up_to_own[0];
  if (thread % lanes == lanes - 1) {
    memory.weights[warp] = up_to;
  }
  __syncthreads();
  std::uint64_t all = 0;
  for (int w = 0; w < memory.warps; ++w) {
    up_to += w < warp ? memory.weights[w] : 0;
    all += memory.weights[w];
  }
  const bool is_first = thread == 0;
  const bool kept =
      kind == row_kind::ordinary && !greedy
          ? deep_enough && (p.top_p == 1 || up_to - weight < sampling::share_of(p.top_p, {all}).low)
          : is_first && (kind == row_kind::ordinary || kind == row_kind::infinite);
  const lane_mask kept_lanes = ballot(kept);
  // The first lanes, if any.
  const std::uint64_t up_to_last = shuffle(up_to, kept_lanes != 0 ? count(kept_lanes) - 1 : 0);
  if (thread % lanes == 0) {
    memory.kept[warp] = count(kept_lanes);
    memory.kept_weights[warp] = up_to_last;
  }
  __syncthreads();
  sampling::row_numbers numbers;
  numbers.kind = kind;
  for (int w = 0; w < memory.warps; ++w) {
    numbers.kept += memory.kept[w];
    if (memory.kept[w] > 0) {
      numbers.kept_weight = {memory.kept_weights[w]};
    }
  }
  if (is_first) {
    sampling::write_numbers(problem.options, row, numbers);
  }
  const bool has_log = problem.options.log_probability.data != nullptr && !greedy;
  for (std::int64_t draw = 0; draw < problem.tokens.cols; ++draw) {
    sampling::runner own;
    if (kept) {
      const sampling::noise noise = {p.seed, p.offset, static_cast<std::uint32_t>(draw)};
      own = {kind == row_kind::ordinary && !greedy
                 ? sampling::key_of(z, sampling::random_bits(noise, column))
                 : z,
             column};
    }
    const sampling::runner of_warp = best_over_warp<lanes>(own);
    sampling::runner(&found)[Memory::warps] = memory.best[draw % 2];
    if (thread % lanes == 0) {
      found[warp] = of_warp;
    }
    __syncthreads();
    sampling::runner best = found[0];
    for (int w = 1; w < memory.warps; ++w) {
      take_better(found[w], best);
    }
    // The winner writes its own token.
    if (numbers.kept > 0 ? kept && column == best.column : is_first) {
      const double log = has_log ? sampling::log_probability(largest, z, numbers.kept_weight) : 0;
      write_drawn(problem, row, draw, {z, column}, kind, log);
    }
  }
}

/// Lists in order.
template <class In>
struct ordered_lists {
  static constexpr int threads = list_threads;
  struct memory {};
  sample_lists lists;

  /// By all threads of a block; of the first k elements.
  template <int lanes>
  __device__ list_element of_thread(std::int64_t row, std::int64_t k, memory&) const {
    const auto thread = static_cast<int>(threadIdx.x);
    const In* const values = static_cast<const In*>(lists.values.data) + row * lists.values.stride;
    const auto first = static_cast<double>(widen(values[0]));
    if (thread >= lists.values.cols || thread >= k) {
      return {first, -std::numeric_limits<double>::infinity(), 0};
    }
    return {first, static_cast<double>(widen(values[thread])),
            core::integer_at(lists.columns.data, lists.columns.type,
                             row * lists.columns.stride + thread)};
  }
};

/// Those of spans, which are merged first: a launch less than a kernel for that.
struct unmerged_lists {
  static constexpr int threads = merge_threads;
  using memory = merge_memory;
  span_lists lists;

  template <int lanes>
  __device__ list_element of_thread(std::int64_t row, std::int64_t k, memory& merged) const {
    using entry = entry_of<packed_entry>;
    merge_lists_of_row<lanes>(lists, row, merged, [] {});
    const auto thread = static_cast<int>(threadIdx.x);
    const auto value_of = [](packed_entry e) {
      return static_cast<double>(core::value_of_key<float>(entry::key(e)));
    };
    const double first = value_of(merged.ranked[0]);
    if (thread >= lists.k || thread >= k) {
      return {first, -std::numeric_limits<double>::infinity(), 0};
    }
    const packed_entry own = merged.ranked[thread];
    return {first, value_of(own), entry::column(own)};
  }
};

template <int lanes, class In, class Lists>
__global__ void __launch_bounds__(Lists::threads)
    sample_from_lists(const core::sample_problem problem, const sample_ways ways,
                      const Lists lists) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  __shared__ typename Lists::memory of_lists;
  __shared__ uninitialised<list_memory<lanes, Lists::threads>> shared;
  const std::int64_t row = blockIdx.x;
  const list_parameters<arithmetic_t<In>> of(problem, ways, row);
  wait_for_launch_before();
  if (of.is_listed) {
    draw_from_list<lanes>(problem, of, row,
                          lists.template of_thread<lanes>(row, of.of_row.top_k, of_lists),
                          shared.get());
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
