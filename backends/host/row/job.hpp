// SPDX-License-Identifier: Apache-2.0
/// \file
/// Jobs on rows, and the ways of working on them, each written once for all jobs.
///
/// A job is source + state + sink: what is read, what a row folds into, what is done with that. It
/// is a small value that says
///
///     description()              its size and what it moves: what a plan is chosen from
///     segment_bytes, kept_bytes  memory that one row at work needs: of each segment's state, and
///     of
///                                what it keeps from the first pass for the second
///     row(job, plan, r, memory)  a type: row r at work
///
/// and a row, whose segments may come in any order and on any thread, has
///
///     fold(segment)      the first look: the segment's state. A job whose state is given has none
///     between()          the state of the row from those of its segments; after every fold, once
///     write(segment)     the second look. A reduction has none: between() writes its result
///
/// What a state is, is between these three: the ways count its bytes and know nothing else of it.
///
/// Some jobs can do more. With short_rows(plan, begin, end), one kernel call works on many rows.
/// With fold_behind(segment, row before), a row's second look goes along with the next one's first.
#pragma once

#include <backends/host/parallel.hpp>
#include <backends/host/plan/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

/// What one row at work has of a task's scratch memory.
struct row_memory {
  void* segments;
  void* kept;
};

template <class Row>
concept folds = requires(Row& row, std::int64_t segment) {
  row.fold(segment);
};

template <class Row>
concept writes = requires(const Row& row, std::int64_t segment) {
  row.write(segment);
};

/// leave() is what remains of a row that may be stored behind: nothing if it may not.
template <class Row>
concept may_stand_behind = requires(Row& row, std::int64_t segment,
                                    const typename Row::left_behind& before) {
  row.fold_behind(segment, before);
  { row.leave() } -> std::same_as<std::optional<typename Row::left_behind>>;
  before.store();
};

template <class Job>
concept has_short_rows = requires(const Job& job, const plan& plan, std::int64_t row) {
  { job.takes_short_rows() } -> std::same_as<bool>;
  job.short_rows(plan, row, row);
};

/// Scratch memory of a call: what each concurrent task needs, one after the other.
class task_memory {
 public:
  template <class Job>
  task_memory(executor& on, const Job& job, const plan& plan, std::int64_t segments)
      : segments_(whole_lines(static_cast<std::size_t>(segments) * Job::segment_bytes)),
        kept_(whole_lines(job.kept_bytes(plan))),
        each_(segments_ + (plan.second == second_pass::scale_behind ? 2 : 1) * kept_) {
    const int tasks = plan.over == spread::rows ? on.threads : 1;
    memory_ = on.scratch.at_least(each_ * static_cast<std::size_t>(tasks));
  }

  /// That of a row in the task of a slot; `odd` rows keep what they keep elsewhere.
  [[nodiscard]] row_memory at(int slot, bool odd = false) const {
    std::byte* const task = memory_ + static_cast<std::size_t>(slot) * each_;
    return {task, task + segments_ + (odd ? kept_ : 0)};
  }

 private:
  static std::size_t whole_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

  std::size_t segments_, kept_, each_;
  std::byte* memory_;
};

/// Both looks at one row, by this thread or, segment by segment, by all.
template <class Row>
void run_row(executor& on, const plan& plan, std::int64_t cols, Row& row) {
  const auto write = [&](std::int64_t segment) {
    if constexpr (writes<Row>) {
      row.write(segment);
      if (plan.stream && plan.over == spread::segments) {
        on.kernels.end_of_stream();
      }
    }
  };
  if constexpr (folds<Row>) {
    const auto fold = [&](std::int64_t segment) { row.fold(segment); };
    if (writes<Row> && plan.over == spread::segments) {
      in_two_phases(
          on, segments_of(cols), fold, [&] { row.between(); }, write);
      return;
    }
    over_segments(on, plan, cols, fold);
  }
  row.between();
  if constexpr (writes<Row>) {
    // What was folded last is the likeliest to be in a cache.
    const std::int64_t last = segments_of(cols) - 1;
    over_segments(on, plan, cols, [&](std::int64_t i) { write(folds<Row> ? last - i : i); });
  }
}

/// Rows [begin, end), each of which is stored while the next one is folded.
template <class Job>
void run_rows_behind(const Job& job, const plan& plan, std::int64_t cols, std::int64_t begin,
                     std::int64_t end, const task_memory& memory, int slot) {
  using row = typename Job::row;
  const std::int64_t n = segments_of(cols);
  std::optional<typename row::left_behind> before;
  bool odd = false;
  for (std::int64_t r = begin; r < end; ++r) {
    row now(job, plan, r, memory.at(slot, odd));
    for (std::int64_t i = 0; i < n; ++i) {
      before ? now.fold_behind(i, *before) : now.fold(i);
    }
    now.between();
    before = now.leave();
    if (before) {
      odd = !odd;
      continue;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      now.write(i);
    }
  }
  if (before) {
    before->store();
  }
}

/// Every row of a job that has rows.
template <class Job>
void run_job(executor& on, const Job& job) {
  using row = typename Job::row;
  const shape description = job.description();
  const plan plan = plan_for(on, description);
  if constexpr (has_short_rows<Job>) {
    if (plan.short_rows && job.takes_short_rows()) {
      over_rows(on, plan, description.rows, [&](std::int64_t begin, std::int64_t end, int) {
        job.short_rows(plan, begin, end);
      });
      return;
    }
  }
  const task_memory memory(on, job, plan, segments_of(description.cols));
  over_rows(on, plan, description.rows, [&](std::int64_t begin, std::int64_t end, int slot) {
    if constexpr (may_stand_behind<row>) {
      if (plan.second == second_pass::scale_behind) {
        run_rows_behind(job, plan, description.cols, begin, end, memory, slot);
        return;
      }
    }
    for (std::int64_t r = begin; r < end; ++r) {
      row one(job, plan, r, memory.at(slot));
      run_row(on, plan, description.cols, one);
    }
  });
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
