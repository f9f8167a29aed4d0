// SPDX-License-Identifier: Apache-2.0
/// \file
/// Plan lanes: some lanes of a warp hold a row in their registers. One read and one write.
#pragma once

#include <gpu/row/tile.hpp>

#include <cstddef>
#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Writes elements [0, n) of the shared `from`, whose first corresponds to `to`, by all threads of
/// the block; both lie alike modulo 16 bytes.
template <class Out>
__device__ inline void write_staged(Out* to, const block16* from, int n) {
  constexpr int each = vector_width<Out>;
  const int head = static_cast<int>(reinterpret_cast<std::uintptr_t>(to) % 16 / sizeof(Out));
  auto* const base = reinterpret_cast<block16*>(to - head);
  for (int v = static_cast<int>(threadIdx.x); v * each < head + n;
       v += static_cast<int>(blockDim.x)) {
    const int from_element = head - v * each;
    const int until = head + n - v * each;
    if (from_element <= 0 && until >= each) {
      store_vector(base + v, from[v]);
    } else {
      store_elements(reinterpret_cast<Out*>(base + v), from[v], from_element, until);
    }
  }
}

/// Longer rows have few sectors that are not whole: shared memory takes more time than they do.
inline constexpr std::size_t most_staged_bytes = 1024;

/// How rows by lanes of a warp are read and written.
enum class row_ends {
  any,
  plain,  ///< without masks, see tile
  /// The rows of y follow each other without gaps, but are no whole sectors: a block's rows are put
  /// together in shared memory, because a store of a part of a sector takes the L2 cache as long as
  /// one of all of it.
  staged
};

/// Blocks of 256 threads on a multiprocessor, at least; 0: the compiler's choice, which is as many,
/// but for jobs that have kernels for plain rows only.
template <class Job, int V>
constexpr int lanes_resident = Job::fold_type::only_plain&& V == 8 ? 4 : 0;

template <int lanes, row_ends ends, class Job, int V>
__global__ void __launch_bounds__(256, least_resident(lanes_resident<Job, V>))
    map_rows_by_lanes(const Job job, int row_shift) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using Out = typename Job::output;
  constexpr bool staged = ends == row_ends::staged;
  constexpr bool plain = ends == row_ends::plain;
  constexpr bool keep = Job::template keeps<V>;
  const auto& fold = job.fold;
  const int row_lanes = 1 << row_shift;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t row = thread >> row_shift;
  const bool exists = row < fold.source.rows;
  const auto range = fold.source.range(row, exists, plain ? known_to_be_aligned : vector_bytes);
  auto own = fold.template hold<V, plain>(
      exists ? row : 0, range, static_cast<int>(threadIdx.x) & (row_lanes - 1), row_lanes);
  own.load();
  fold.edit(own);

  auto* const stage = reinterpret_cast<block16*>(dynamic_shared_memory());
  Out* const first = job.y + ((thread - threadIdx.x) >> row_shift) * job.y_stride;
  Out* to = job.y + row * job.y_stride - range.head;
  if constexpr (staged) {
    const auto skew = reinterpret_cast<std::uintptr_t>(first) % 16 / sizeof(Out);
    to = reinterpret_cast<Out*>(stage) + skew + (to - first);
  }
  if (keep && job.is_given()) {
    if (exists) {
      job.template write<false, !staged>(own, to, job.given_result(row), {});
    }
  } else {
    typename Job::result result{};
    typename Job::state local{};
    if (keep || !job.is_given()) {
      local = fold.template fold<lanes, Job::of_exponentials, keep>(own, row_lanes);
      result = job.result_of(local);
    } else if (exists) {
      result = job.given_result(row);
    }
    if (exists) {
      job.template write<keep, !staged>(own, to, result, local);
    }
  }
  if constexpr (staged) {
    __syncthreads();
    const std::int64_t rest = fold.source.rows * fold.source.cols - (first - job.y);
    const int n = static_cast<int>(blockDim.x >> row_shift) * static_cast<int>(fold.source.cols);
    write_staged(first, stage, rest < n ? static_cast<int>(rest) : n);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
