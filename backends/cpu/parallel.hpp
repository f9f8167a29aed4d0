// SPDX-License-Identifier: Apache-2.0
/// \file
/// Spreads a call over a queue's threads. Tasks are cut by the plan, never by the scheduler, and
/// each writes its own results: what they compute does not depend on who runs them.
#pragma once

#include "plan.hpp"
#include "queue_state.hpp"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace softfold::cpu_backend {

/// body(i) for 0 <= i < n, one task each.
template <class Body>
void parallel_tasks(std::int64_t n, Body&& body) {
  tbb::parallel_for(
      tbb::blocked_range<std::int64_t>(0, n, 1),
      [&](const tbb::blocked_range<std::int64_t>& range) {
        for (std::int64_t i = range.begin(); i != range.end(); ++i) {
          body(i);
        }
      },
      tbb::simple_partitioner{});
}

/// body(begin, end, slot) for tasks of whole rows; slot < queue.info.threads tells concurrent
/// tasks apart. With spread::segments: one call for all rows, inside the arena, whose body
/// spreads each row itself.
template <class Body>
void over_rows(queue::state& queue, const plan& plan, std::int64_t rows, Body&& body) {
  const auto task = [&](std::int64_t begin, std::int64_t end, int slot) {
    body(begin, end, slot);
    if (plan.stream) {
      queue.kernels.end_of_stream();
    }
  };
  switch (plan.over) {
    case spread::serial:
      task(0, rows, 0);
      return;
    case spread::segments:
      queue.arena.execute([&] { body(std::int64_t{0}, rows, 0); });
      return;
    case spread::rows:
      break;
  }
  const std::int64_t per_task = plan.rows_per_task;
  queue.arena.execute([&] {
    parallel_tasks((rows + per_task - 1) / per_task, [&](std::int64_t i) {
      task(i * per_task, std::min(rows, (i + 1) * per_task),
           tbb::this_task_arena::current_thread_index());
    });
  });
}

/// body(segment, first column, columns) for each segment of a row.
template <class Body>
void over_segments(const plan& plan, const kernel_table& kernels, std::int64_t cols, Body&& body) {
  const auto one = [&](std::int64_t segment) {
    const std::int64_t begin = segment * segment_columns;
    body(segment, begin, std::min(segment_columns, cols - begin));
  };
  if (plan.over == spread::segments) {
    parallel_tasks(segments_of(cols), [&](std::int64_t segment) {
      one(segment);
      if (plan.stream) {
        kernels.end_of_stream();
      }
    });
  } else {
    for (std::int64_t segment = 0; segment < segments_of(cols); ++segment) {
      one(segment);
    }
  }
}

}  // namespace softfold::cpu_backend
