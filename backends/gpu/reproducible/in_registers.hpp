// SPDX-License-Identifier: Apache-2.0
/// \file
/// softmax and log-softmax to the bits of core/reproducible.hpp in one read and one write of rows
/// that lanes of a warp, a block or a cluster's blocks hold in registers.
#pragma once

#include <gpu/map/by_lanes.hpp>
#include <gpu/map/prefetch.hpp>
#include <gpu/plan/constants.hpp>
#include <gpu/reproducible/total_map.hpp>

#include <cstddef>
#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class Job>
struct row_memory {
  static constexpr int most_warps = row_threads / 32;

  shared_array<total_state, most_warps> warps;
  shared_array<typename Job::total, 1> total;
};

/// A row of which the calling warp holds `own`, by all threads. combine(state, look), by a block's
/// first warp, gives the row's state of the block's; `prepare` is called before the first.
template <int lanes, class Job, class Own, class Prepare, class Combine>
__device__ inline void map_row(const Job& job, Own& own, std::int64_t row, int blocks,
                               row_memory<Job>& memory, const Prepare& prepare,
                               const Combine& combine) {
  const auto find_total = [&](const total_state& warp, int look) {
    if (threadIdx.x % lanes == 0) {
      memory.warps[threadIdx.x / lanes] = warp;
    }
    if (look == 0) {
      prepare();
    }
    __syncthreads();
    // One warp combines, and divides in f64.
    if (threadIdx.x < lanes) {
      const total_state whole =
          combine(combine_up_to_lanes<lanes, true>(
                      memory.warps.data(), static_cast<int>(blockDim.x) / lanes, total_monoid()),
                  look);
      if (threadIdx.x == 0) {
        memory.total[0] = job.total_of(whole);
      }
    }
    __syncthreads();
  };
  find_total(job.template fold<lanes>(own, lanes), 0);
  const auto exponents = memory.total[0].exponents;
  if (exponents.is_far) {
    find_total(job.fold_again(own, lanes, exponents.origin), 1);
  }
  const auto& range = own.range();
  // Rows of f32 lose by it, and 16-bit ones that are not plain where a cluster shares them.
  if (Job::width == 8 && (Job::is_plain || blocks == 1)) {
    prefetch_successor(range.base, range.size(), static_cast<int>(threadIdx.x % lanes), row, blocks,
                       job.source);
  }
  job.template write<true>(own, job.y + row * job.y_stride + (range.base - job.source.row(row)),
                           memory.total[0], exponents.is_far);
}

/// A row by a block.
template <int lanes, class Job, int V>
__global__ void __launch_bounds__((most_sharers<Job, V>), least_resident(resident_sharers<Job, V>))
    map_total_by_block(const Job job) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  __shared__ row_memory<Job> memory;
  const std::int64_t row = blockIdx.x;
  auto own = job.template hold_part<lanes, V>(row, 0, static_cast<int>(job.source.cols));
  own.load_long();
  map_row<lanes>(
      job, own, row, 1, memory, [] {}, [](const total_state& block, int) { return block; });
}

/// Blocks of map_totals_by_lanes on a multiprocessor.
template <class Job, int V>
inline constexpr int totals_resident = V == 4 || (!Job::keeps && Job::is_plain)
                                           ? (Job::is_plain ? 4 : 3)
                                       : vector_width<typename Job::element> == 8 ? 2
                                                                                  : 3;

/// Rows by some lanes of a warp each.
template <int lanes, bool staged, class Job, int V>
__global__ void __launch_bounds__(256, least_resident(totals_resident<Job, V>))
    map_totals_by_lanes(const Job job, int row_shift) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using In = typename Job::element;
  const int row_lanes = 1 << row_shift;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t row = thread >> row_shift;
  const bool exists = row < job.source.rows;
  const auto range =
      job.source.range(row, exists, Job::is_plain ? known_to_be_aligned : vector_bytes);
  typename Job::template held<V> own(range, static_cast<int>(threadIdx.x) & (row_lanes - 1),
                                     row_lanes);
  own.load();
  total_state state = job.template fold<lanes>(own, row_lanes);
  const bool any_far = ballot(job.is_far(state.largest)) != 0;
  if (any_far) {
    state = job.fold_again(own, row_lanes, state.largest);
  }
  const auto total = job.total_of(state);
  In* const to = job.y + row * job.y_stride - range.head;
  if constexpr (staged) {
    In* const first = job.y + ((thread - threadIdx.x) >> row_shift) * job.y_stride;
    const auto skew = reinterpret_cast<std::uintptr_t>(first) % vector_bytes / sizeof(In);
    auto* const stage = reinterpret_cast<block16*>(dynamic_shared_memory());
    if (exists) {
      job.template write<false>(own, reinterpret_cast<In*>(stage) + skew + (to - first), total,
                                any_far);
    }
    __syncthreads();
    const std::int64_t rest = job.source.rows * job.source.cols - (first - job.y);
    const int n = static_cast<int>(blockDim.x >> row_shift) * static_cast<int>(job.source.cols);
    write_staged(first, stage, rest < n ? static_cast<int>(rest) : n);
  } else if (exists) {
    job.template write<true>(own, to, total, any_far);
  }
}

/// Each backend's own, and only asked for where device_limits has clusters.
template <int lanes, class Job>
void launch_total_clusters(const Job& job, const row_plan& plan, stream_handle stream);

template <int lanes, class Job>
void launch_totals_by_lanes(const Job& job, const row_plan& plan, stream_handle stream) {
  const std::int64_t blocks = divide_up(job.source.rows * plan.lanes, plan.threads);
  const auto launch = [&](auto v) {
    if constexpr (stages_rows && Job::stages) {
      const std::size_t row_bytes =
          static_cast<std::size_t>(job.source.cols) * sizeof(typename Job::element);
      if (job.y_stride == job.source.cols && row_bytes % sector_bytes != 0 &&
          row_bytes <= most_staged_bytes) {
        launch_shared(stream, map_totals_by_lanes<lanes, true, Job, v()>, blocks, plan.threads,
                      static_cast<std::size_t>(plan.threads / plan.lanes) * row_bytes + 32, job,
                      row_shift(plan));
        return;
      }
    }
    launch_grid(stream, map_totals_by_lanes<lanes, false, Job, v()>, blocks, plan.threads, job,
                row_shift(plan));
  };
  plan.vectors <= 4 ? launch(std::integral_constant<int, 4>())
                    : launch(std::integral_constant<int, 8>());
}

/// By a plan of plan_once.
template <int lanes, class Job>
void launch_totals(const Job& job, const row_plan& plan, stream_handle stream) {
  const auto by_block = [&](auto v) {
    launch_grid(stream, map_total_by_block<lanes, Job, v()>, job.source.rows, plan.threads, job);
  };
  if constexpr (Job::has_short) {
    if (plan.kind == row_plan_kind::lanes) {
      return launch_totals_by_lanes<lanes>(job, plan, stream);
    }
    if constexpr (Job::width == 8) {
      if (plan.vectors <= 4) {
        return by_block(std::integral_constant<int, 4>());
      }
    }
  }
  if constexpr (Job::has_long) {
    plan.kind == row_plan_kind::cluster ? launch_total_clusters<lanes>(job, plan, stream)
                                        : by_block(std::integral_constant<int, 8>());
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
