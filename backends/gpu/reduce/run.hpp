// SPDX-License-Identifier: Apache-2.0
/// \file
/// Runs a fold whose sink is one result for each row: logsumexp and fold.
#pragma once

#include <gpu/executor.hpp>
#include <gpu/plan/constants.hpp>
#include <gpu/reduce/by_chunks.hpp>
#include <gpu/reduce/by_lanes.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Scratch memory for the states of rows' chunks, and of the rows.
template <class Fold>
typename Fold::state* chunk_states(executor& on, const row_plan& plan, std::int64_t rows) {
  if (plan.kind != row_plan_kind::chunks) {
    return nullptr;
  }
  const auto count = static_cast<std::size_t>(rows) * (static_cast<std::size_t>(plan.chunks) + 1);
  return static_cast<typename Fold::state*>(
      on.scratch.at_least(count * sizeof(typename Fold::state)));
}

/// The states of all chunks of all rows.
template <int lanes, class Fold>
void fold_chunks(const Fold& fold, const row_plan& plan, typename Fold::state* parts,
                 stream_handle stream) {
  launch_grid(stream, reduce_chunk<lanes, Fold>, fold.source.rows * plan.chunks, chunk_threads,
              fold, plan.chunks, typename Fold::results{}, parts);
}

/// Results, or `states`, of rows from those of their chunks.
template <int lanes, class Fold>
void finish(const Fold& fold, const row_plan& plan, const typename Fold::state* parts,
            const typename Fold::results& results, typename Fold::state* states,
            stream_handle stream) {
  using whole = typename Fold::whole;  // what is removed is no matter any more
  const std::int64_t rows = fold.source.rows;
  if (plan.chunks > most_chunks_read_by_all) {
    launch_next(stream, finish_long_rows<lanes, whole>, rows, 512, 0, parts, plan.chunks,
                fold.states(), results, states);
    return;
  }
  launch_next(stream, finish_rows<lanes, whole>, divide_up(rows * lanes, 256), 256, 0, parts, rows,
              plan.chunks, fold.states(), results, states);
}

/// Both in one launch, by clusters: each backend's own, and only asked for where device_limits has
/// clusters.
template <int lanes, class Fold>
void launch_clustered_reduction(const Fold& fold, const row_plan& plan,
                                const typename Fold::results& results, stream_handle stream);

/// Calls body with the compile-time number of vectors of each lane: that of the plan, or more,
/// which makes fewer kernels, for folds that have kernels for plain rows only. What is kept between
/// two looks, and so the bits of a result, does not depend on it.
template <class Fold, class Body>
void with_some_vectors(int vectors, Body&& body) {
  if constexpr (!Fold::only_plain) {
    with_vectors(vectors, body);
  } else if (vectors <= 4) {
    body(std::integral_constant<int, 4>());
  } else {
    body(std::integral_constant<int, 8>());
  }
}

template <class Fold>
void run_reduction(executor& on, const Fold& fold, const typename Fold::results& results) {
  const std::int64_t rows = fold.source.rows;
  if (rows == 0) {
    return;
  }
  const runtime::current_device current(on.device);
  const row_plan plan = plan_reduction(fold.shape(), rows, on.limits(), on.forced);
  on.last = plan;
  const bool clustered = plan.pass == second_pass::clustered;
  auto* const parts = clustered ? nullptr : chunk_states<Fold>(on, plan, rows);
  with_lanes(on.properties.lanes, [&](auto lanes) {
    if (plan.kind == row_plan_kind::lanes) {
      with_some_vectors<Fold>(plan.vectors, [&](auto v) {
        launch_grid(on.stream, reduce_rows_by_lanes<lanes(), Fold, v()>,
                    divide_up(rows * plan.lanes, plan.threads), plan.threads, fold, results,
                    row_shift(plan));
      });
    } else if (plan.chunks == 1) {
      launch_grid(on.stream, reduce_chunk<lanes(), Fold>, rows, plan.threads, fold, 1, results,
                  nullptr);
    } else if (clustered) {
      launch_clustered_reduction<lanes()>(fold, plan, results, on.stream);
    } else {
      fold_chunks<lanes()>(fold, plan, parts, on.stream);
      finish<lanes()>(fold, plan, parts, results, nullptr, on.stream);
    }
  });
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
