// SPDX-License-Identifier: Apache-2.0
/// \file
/// Runs a job whose sink is a second look at every element: plans it, and starts the plan's
/// kernels.
#pragma once

#include <gpu/map/by_block.hpp>
#include <gpu/map/by_lanes.hpp>
#include <gpu/map/by_second_read.hpp>
#include <gpu/reduce/run.hpp>

#include <algorithm>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Rows by clusters: each backend's own, and only asked for where device_limits has clusters.
template <int lanes, class Job>
void launch_cluster_rows(const Job& job, const row_plan& plan, stream_handle stream);

/// The same of rows of chunks, one or a few of each row by each block, which changes no bit of a
/// result.
template <int lanes, class Job>
void launch_clustered_chunks(const Job& job, const row_plan& plan, stream_handle stream);

/// Both looks at chunks in one launch, by blocks that exchange the chunks' states; false, and
/// nothing launched, if the device has no room for all of them at once now.
template <int lanes, class Job>
bool launch_chunks_together(const Job& job, const row_plan& plan, exchange_memory* exchange,
                            stream_handle stream);
template <int lanes, class Job>
bool launch_ring_of_chunks(const Job& job, const row_plan& plan, exchange_memory* exchange,
                           stream_handle stream);

/// Calls body with the compile-time number of vectors that a thread has of each matrix: that of the
/// plan, or more, which makes fewer kernels, for results wider than the elements and for jobs that
/// have kernels for plain rows only.
template <class Job, class Body>
void with_vectors_of(int vectors, Body&& body) {
  using fold_type = typename Job::fold_type;
  if constexpr (fold_type::only_plain) {
    with_some_vectors<fold_type>(vectors, body);
  } else {
    constexpr int matrices = fold_type::matrices;
    constexpr bool widens = sizeof(typename Job::output) > sizeof(typename fold_type::element);
    if constexpr (matrices > 1) {
      if (vectors > 8) {
        return body(std::integral_constant<int, 5>());
      }
    }
    with_vectors(widens && vectors > 4 ? 8 : vectors, [&](auto v) {
      constexpr int each = (v() + matrices - 1) / matrices;
      if constexpr (!widens || v() <= 4 || v() == 8) {
        body(std::integral_constant<int, each>());
      }
    });
  }
}

/// Calls body with whether the job's rows are plain, at compile time: kernels for that are shorter;
/// see tile.
template <class Job, class Body>
auto with_plain(const Job& job, Body&& body) {
  if constexpr (Job::fold_type::only_plain) {
    return body(std::true_type());
  } else {
    return job.is_plain() ? body(std::true_type()) : body(std::false_type());
  }
}

/// The same for rows that a block holds, or several. Those of f64 are never plain: their kernels
/// would be shorter, too, but 8192 x 4096 would take an H200 174 us instead of 130.
template <class Job, class Body>
auto with_plain_long(const Job& job, Body&& body) {
  if constexpr (sizeof(typename Job::fold_type::element) == 8) {
    return body(std::false_type());
  } else {
    return with_plain(job, body);
  }
}

template <int lanes, class Job>
void launch_rows_by_lanes(const Job& job, const row_plan& plan, stream_handle stream) {
  using Out = typename Job::output;
  const std::int64_t blocks = divide_up(job.fold.source.rows * plan.lanes, plan.threads);
  with_vectors_of<Job>(plan.vectors, [&](auto v) {
    constexpr bool is_short = v() * Job::fold_type::matrices <= 8;
    if constexpr (stages_rows && is_short && !Job::fold_type::only_plain) {
      const std::size_t row_bytes = static_cast<std::size_t>(job.fold.source.cols) * sizeof(Out);
      if (job.y_stride == job.fold.source.cols && row_bytes % sector_bytes != 0 &&
          row_bytes <= most_staged_bytes) {
        launch_shared(stream, map_rows_by_lanes<lanes, row_ends::staged, Job, v()>, blocks,
                      plan.threads,
                      static_cast<std::size_t>(plan.threads / plan.lanes) * row_bytes + 32, job,
                      row_shift(plan));
        return;
      }
    }
    with_plain(job, [&](auto plain) {
      constexpr row_ends ends = plain() ? row_ends::plain : row_ends::any;
      launch_grid(stream, map_rows_by_lanes<lanes, ends, Job, v()>, blocks, plan.threads, job,
                  row_shift(plan));
    });
  });
}

template <int lanes, class Job>
void launch_rows_by_block(const Job& job, const row_plan& plan, stream_handle stream) {
  constexpr int matrices = Job::fold_type::matrices;
  with_plain_long(job, [&](auto plain) {
    if (plan.vectors == 4) {
      launch_grid(stream, map_row_by_block<lanes, plain(), Job, 4 / matrices>, job.fold.source.rows,
                  plan.threads, job);
    } else {
      launch_grid(stream, map_row_by_block<lanes, plain(), Job, 8 / matrices>, job.fold.source.rows,
                  plan.threads, job);
    }
  });
}

/// `parts`: see chunk_states.
template <int lanes, class Job>
void launch_rows_read_twice(const Job& job, const row_plan& plan, typename Job::state* parts,
                            stream_handle stream) {
  row_states_known<typename Job::state> known;
  if (!job.is_given()) {
    fold_chunks<lanes>(job.fold, plan, parts, stream);
    known = {parts, plan.chunks};
    if (plan.chunks > most_chunks_read_by_all) {
      auto* const wholes = parts + job.fold.source.rows * plan.chunks;
      finish<lanes>(job.fold, plan, parts, {}, wholes, stream);
      known = {wholes, 1};
    }
  }
  launch_grid(stream, map_chunk<lanes, Job, chunk_vectors_each_of(Job::fold_type::matrices)>,
              job.fold.source.rows * plan.chunks, chunk_threads, job, plan.chunks, known);
}

template <int lanes, class Job>
void launch_map(executor& on, const Job& job, const row_plan& plan, typename Job::state* parts) {
  switch (plan.kind) {
    case row_plan_kind::lanes:
      return launch_rows_by_lanes<lanes>(job, plan, on.stream);
    case row_plan_kind::block:
      return launch_rows_by_block<lanes>(job, plan, on.stream);
    case row_plan_kind::cluster:
      return launch_cluster_rows<lanes>(job, plan, on.stream);
    case row_plan_kind::chunks:
      break;
  }
  if (plan.pass == second_pass::clustered) {
    return launch_clustered_chunks<lanes>(job, plan, on.stream);
  }
  exchange_memory* const exchange = on.scratch.exchange();
  if (plan.pass == second_pass::together &&
      launch_chunks_together<lanes>(job, plan, exchange, on.stream)) {
    return;
  }
  if (plan.pass == second_pass::ring &&
      launch_ring_of_chunks<lanes>(job, plan, exchange, on.stream)) {
    return;
  }
  if (plan.pass != second_pass::reads) {  // there was no room for it now
    std::get<row_plan>(on.last).pass = second_pass::reads;
  }
  launch_rows_read_twice<lanes>(job, plan, parts, on.stream);
}

template <class Job>
void run_map(executor& on, const Job& job) {
  const std::int64_t rows = job.fold.source.rows;
  if (rows == 0 || job.fold.source.cols == 0) {
    return;
  }
  const runtime::current_device current(on.device);
  const row_shape shape = job.fold.shape();
  const device_limits device = on.limits();
  const row_plan plan = job.is_given() ? plan_pass(shape, on.forced)
                                       : plan_rows(plan_map(shape, device, on.forced), rows, shape,
                                                   device, on.forced);
  on.last = plan;
  const std::int64_t batch = plan.batch_rows > 0 ? std::min(plan.batch_rows, rows) : rows;
  auto* const parts = job.is_given() || plan.pass == second_pass::clustered
                          ? nullptr
                          : chunk_states<typename Job::fold_type>(on, plan, batch);
  with_lanes(on.properties.lanes, [&](auto lanes) {
    for (std::int64_t first = 0; first < rows; first += batch) {
      launch_map<lanes()>(on, job.part(first, std::min(batch, rows - first)), plan, parts);
    }
  });
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
