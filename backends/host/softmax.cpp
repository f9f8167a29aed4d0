// SPDX-License-Identifier: Apache-2.0
/// \file
/// softmax, log_softmax and logsumexp: plan -> launch.
#include "launch.hpp"
#include "parallel.hpp"
#include "row.hpp"
#include "row_fold.hpp"

#include <core/check.hpp>

#include <limits>
#include <utility>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

using core::operation;
using problem = core::row_problem;

plan plan_of(const executor& queue, const problem& p) {
  const bool one_result = p.what == operation::logsumexp;
  return choose_plan(
      {.rows = p.x.rows,
       .cols = p.x.cols,
       .input_bytes = static_cast<std::int64_t>(size_of(p.x.type)),
       .output_bytes = one_result ? 0 : static_cast<std::int64_t>(size_of(p.y.type)),
       .arithmetic_bytes = static_cast<std::int64_t>(size_of(core::arithmetic_type(p.x.type))),
       .in_place = p.x.data == p.y.data},
      queue.machine, queue.threads, queue.kernels);
}

/// Whether the kernels for short rows can take the call.
bool takes_short_rows(const problem& p, const plan& plan, const typed_kernels& kernels) {
  return plan.short_rows && ordinary_scale(p.scale) &&
         (p.what != operation::logsumexp || kernels.out == kernels.computed);
}

void run_short_rows(executor& queue, const problem& p, const plan& plan,
                    const typed_kernels& kernels) {
  over_rows(queue, plan, p.x.rows, [&](std::int64_t begin, std::int64_t end, int) {
    const short_rows rows = {.x = kernels.at(p.x.data, begin * p.x.stride),
                             .y = kernels.result_at(p.y.data, begin * p.y.stride),
                             .x_stride = p.x.stride,
                             .y_stride = p.y.stride,
                             .rows = end - begin,
                             .cols = p.x.cols,
                             .scale = p.scale,
                             .empty_value = fill_value(row_state::kind::empty, p.policy,
                                                       p.what == operation::log_softmax)};
    switch (p.what) {
      case operation::softmax:
        kernels.output.short_softmax(&rows);
        return;
      case operation::log_softmax:
        kernels.output.short_log_softmax(&rows);
        return;
      case operation::logsumexp:
        kernels.output.short_logsumexp(&rows);
        return;
    }
  });
}

/// Scratch memory of a call: what each concurrent task needs, one after the other.
struct task_scratch {
  std::size_t segments;  ///< bytes of the segment states
  std::size_t each;      ///< bytes of one task, a multiple of a cache line
};

task_scratch scratch_of(const problem& p, const plan& plan) {
  constexpr std::size_t line = 64;
  const auto round_up = [](std::size_t bytes) { return (bytes + line - 1) / line * line; };
  const std::size_t segments =
      round_up(static_cast<std::size_t>(segments_of(p.x.cols)) * sizeof(segment_state));
  const std::size_t kept_rows = p.what != operation::softmax                ? 0
                                : plan.second == second_pass::scale_scratch ? 1
                                : plan.second == second_pass::scale_behind  ? 2
                                                                            : 0;
  const std::size_t kept = kept_rows * round_up(static_cast<std::size_t>(p.x.cols) *
                                                size_of(core::arithmetic_type(p.x.type)));
  return {segments, segments + kept};
}

/// The second pass over one row.
class row_writer {
 public:
  row_writer(const problem& p, const plan& plan, const typed_kernels& kernels, const void* x,
             void* y, const row_fold& fold)
      : p_(p), plan_(plan), kernels_(kernels), x_(x), y_(y), fold_(fold) {}

  /// To be called between the passes, once.
  void begin() {
    row_ = fold_.state();
    if (p_.what == operation::log_softmax && row_.what == row_state::kind::ordinary) {
      lse_ = log_of(row_, kernels_.computed);
    }
  }

  /// Whether all of the row is its kept exponentials times one factor.
  [[nodiscard]] bool is_kept() const {
    bool all = row_.what == row_state::kind::ordinary;
    for (std::int64_t i = 0; all && i < segments_of(p_.x.cols); ++i) {
      all = fold_.kept(i, row_) != nullptr;
    }
    return all;
  }
  [[nodiscard]] double factor() const { return 1 / row_.sum; }

  void write(std::int64_t segment) const {
    const auto [begin, count] = columns_of(segment, p_.x.cols);
    const void* const x = kernels_.at(x_, begin);
    const destination to{kernels_.result_at(y_, begin), plan_.stream};
    const bool log = p_.what == operation::log_softmax;
    if (row_.what != row_state::kind::ordinary) {
      fill(kernels_, to.data, count, fill_value(row_.what, p_.policy, log));
    } else if (log) {
      kernels_.output.log_probabilities(x, count, &row_.e, lse_.high, lse_.low, to);
    } else if (const void* const kept = fold_.kept(segment, row_); kept != nullptr) {
      kernels_.output.scaled(kept, count, factor(), to);
    } else {
      kernels_.output.probabilities(x, count, &row_.e, 1 / row_.sum, to);
    }
  }

 private:
  const problem& p_;
  const plan& plan_;
  const typed_kernels& kernels_;
  const void* x_;
  void* y_;
  const row_fold& fold_;
  row_state row_;
  split_number lse_{};
};

void run_map_row(executor& queue, const problem& p, const plan& plan, const typed_kernels& kernels,
                 const void* x, void* y, segment_state* segments, void* kept) {
  row_fold fold(kernels, x, p.x.cols, p.scale, segments, kept);
  row_writer writer(p, plan, kernels, x, y, fold);
  const std::int64_t n = segments_of(p.x.cols);
  if (plan.over == spread::segments) {
    in_two_phases(
        queue, n, [&](std::int64_t i) { fold.fold(i); }, [&] { writer.begin(); },
        [&](std::int64_t i) {
          writer.write(i);
          if (plan.stream) {
            kernels.table.end_of_stream();
          }
        });
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    fold.fold(i);
  }
  writer.begin();
  for (std::int64_t i = 0; i < n; ++i) {
    writer.write(i);
  }
}

/// Softmax of rows [begin, end), each of which is stored while the next one is folded. `kept` has
/// room for the exponentials of two rows.
void run_rows_behind(const problem& p, const plan& plan, const typed_kernels& kernels,
                     std::int64_t begin, std::int64_t end, segment_state* segments, std::byte* kept,
                     std::size_t kept_bytes) {
  const std::int64_t n = segments_of(p.x.cols);
  void* now = kept;
  void* before = kept + kept_bytes / 2;
  void* waiting = nullptr;  // where the row goes whose exponentials are in `before`
  double factor = 0;
  for (std::int64_t r = begin; r < end; ++r) {
    const void* const x = kernels.at(p.x.data, r * p.x.stride);
    void* const y = kernels.result_at(p.y.data, r * p.y.stride);
    row_fold fold(kernels, x, p.x.cols, p.scale, segments, now);
    for (std::int64_t i = 0; i < n; ++i) {
      if (waiting == nullptr) {
        fold.fold(i);
      } else {
        const std::int64_t column = columns_of(i, p.x.cols).begin;
        fold.fold_and_stream(i, kernels.computed_at(before, column), factor,
                             kernels.result_at(waiting, column));
      }
    }
    row_writer writer(p, plan, kernels, x, y, fold);
    writer.begin();
    if (writer.is_kept()) {
      waiting = y;
      factor = writer.factor();
      std::swap(now, before);
      continue;
    }
    waiting = nullptr;
    for (std::int64_t i = 0; i < n; ++i) {
      writer.write(i);
    }
  }
  if (waiting != nullptr) {
    kernels.output.scaled(before, p.x.cols, factor, {waiting, plan.stream});
  }
}

void run_rows(executor& queue, const problem& p, const plan& plan, const typed_kernels& kernels) {
  const task_scratch need = scratch_of(p, plan);
  const int tasks = plan.over == spread::rows ? queue.threads : 1;
  std::byte* const scratch = queue.scratch.at_least(need.each * static_cast<std::size_t>(tasks));

  over_rows(queue, plan, p.x.rows, [&](std::int64_t begin, std::int64_t end, int slot) {
    std::byte* const mine = scratch + static_cast<std::size_t>(slot) * need.each;
    auto* const segments = reinterpret_cast<segment_state*>(mine);
    if (p.what == operation::softmax && plan.second == second_pass::scale_behind) {
      run_rows_behind(p, plan, kernels, begin, end, segments, mine + need.segments,
                      need.each - need.segments);
      return;
    }
    for (std::int64_t r = begin; r < end; ++r) {
      const void* const x = kernels.at(p.x.data, r * p.x.stride);
      void* const y = kernels.result_at(p.y.data, r * p.y.stride);
      if (p.what == operation::logsumexp) {
        const row_state row = state_of_row(queue, plan, kernels, x, p.x.cols, p.scale, segments);
        write_real(y, p.y.type, logsumexp_of(row, kernels.computed));
        continue;
      }
      void* kept = nullptr;
      if (p.what == operation::softmax && plan.second != second_pass::recompute) {
        kept = plan.second == second_pass::scale_output ? y : mine + need.segments;
      }
      run_map_row(queue, p, plan, kernels, x, y, segments, kept);
    }
  });
}

}  // namespace

void launch(executor& queue, const problem& p) {
  if (p.x.rows == 0 || p.y.cols == 0) {
    return;
  }
  if (p.x.cols == 0) {  // only logsumexp has anything to write
    for (std::int64_t r = 0; r < p.x.rows; ++r) {
      write_real(static_cast<std::byte*>(p.y.data) +
                     r * p.y.stride * static_cast<std::int64_t>(size_of(p.y.type)),
                 p.y.type, -std::numeric_limits<double>::infinity());
    }
    return;
  }
  const plan plan = plan_of(queue, p);
  const typed_kernels kernels = kernels_for(queue.kernels, p.x.type, p.y.type);
  if (takes_short_rows(p, plan, kernels)) {
    run_short_rows(queue, p, plan, kernels);
  } else {
    run_rows(queue, p, plan, kernels);
  }
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
