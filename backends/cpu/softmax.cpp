// SPDX-License-Identifier: Apache-2.0
/// \file
/// softmax, log_softmax and logsumexp: check -> plan -> launch.
#include "parallel.hpp"
#include "row.hpp"
#include "row_fold.hpp"

#include <core/check.hpp>

#include <limits>
#include <vector>

namespace softfold::cpu_backend {
namespace {

enum class operation : std::uint8_t { softmax, log_softmax, logsumexp };

/// A checked call.
struct problem {
  operation what;
  const_matrix_ref x;
  matrix_ref y;  ///< logsumexp: [rows, 1]
  double scale;
  empty_row policy;
};

plan plan_of(const queue::state& queue, const problem& p) {
  const bool one_result = p.what == operation::logsumexp;
  return choose_plan(
      {.rows = p.x.rows,
       .cols = p.x.cols,
       .input_bytes = static_cast<std::int64_t>(size_of(p.x.type)),
       .output_bytes = one_result ? 0 : static_cast<std::int64_t>(size_of(p.y.type)),
       .arithmetic_bytes = static_cast<std::int64_t>(size_of(core::arithmetic_type(p.x.type))),
       .in_place = p.x.data == p.y.data},
      queue.machine, queue.info.threads, queue.kernels);
}

/// Whether the kernels for short rows can take the call.
bool takes_short_rows(const problem& p, const plan& plan, const typed_kernels& kernels) {
  return plan.short_rows && ordinary_scale(p.scale) &&
         (p.what != operation::logsumexp || kernels.out == kernels.computed);
}

void run_short_rows(queue::state& queue, const problem& p, const plan& plan,
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
  const std::size_t kept =
      plan.second == second_pass::scale_scratch && p.what == operation::softmax
          ? round_up(static_cast<std::size_t>(p.x.cols) * size_of(core::arithmetic_type(p.x.type)))
          : 0;
  return {segments, segments + kept};
}

void write_row(const problem& p, const plan& plan, const typed_kernels& kernels, const void* x,
               void* y, const row_state& row, const segment_state* segments, const void* kept) {
  const bool log = p.what == operation::log_softmax;
  if (row.what != row_state::kind::ordinary) {
    fill(kernels, y, p.x.cols, fill_value(row.what, p.policy, log));
    return;
  }
  const split_number lse = log ? log_of(row, kernels.computed) : split_number{};
  const double factor = 1 / row.sum;
  over_segments(plan, kernels.table, p.x.cols,
                [&](std::int64_t i, std::int64_t begin, std::int64_t count) {
                  const destination to{kernels.result_at(y, begin), plan.stream};
                  if (log) {
                    kernels.output.log_probabilities(kernels.at(x, begin), count, &row.e, lse.high,
                                                     lse.low, to);
                  } else if (kept != nullptr && segments[i].one_origin &&
                             segments[i].origin == row.e.origin) {
                    kernels.output.scaled(kernels.computed_at(const_cast<void*>(kept), begin),
                                          count, factor, to);
                  } else {
                    kernels.output.probabilities(kernels.at(x, begin), count, &row.e, factor, to);
                  }
                });
}

void run_rows(queue::state& queue, const problem& p, const plan& plan,
              const typed_kernels& kernels) {
  const task_scratch need = scratch_of(p, plan);
  const int tasks = plan.over == spread::rows ? queue.info.threads : 1;
  std::byte* const scratch = queue.scratch.at_least(need.each * static_cast<std::size_t>(tasks));

  over_rows(queue, plan, p.x.rows, [&](std::int64_t begin, std::int64_t end, int slot) {
    std::byte* const mine = scratch + static_cast<std::size_t>(slot) * need.each;
    auto* const segments = reinterpret_cast<segment_state*>(mine);
    for (std::int64_t r = begin; r < end; ++r) {
      const void* const x = kernels.at(p.x.data, r * p.x.stride);
      void* const y = kernels.result_at(p.y.data, r * p.y.stride);
      void* kept = nullptr;
      if (p.what == operation::softmax && plan.second != second_pass::recompute) {
        kept = plan.second == second_pass::scale_output ? y : mine + need.segments;
      }
      bool is_kept = false;
      const row_state row =
          fold_row(plan, kernels, x, p.x.cols, p.scale, segments, kept, nullptr, 0, &is_kept);
      if (p.what == operation::logsumexp) {
        write_real(y, p.y.type, logsumexp_of(row, kernels.computed));
      } else {
        write_row(p, plan, kernels, x, y, row, segments, is_kept ? kept : nullptr);
      }
    }
  });
}

void launch(queue::state& queue, const problem& p) {
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

problem check_map(const char* name, operation what, const const_matrix_ref& x, const matrix_ref& y,
                  const softmax_options& options) {
  core::check_input({name, "x"}, x);
  core::check_output({name, "y"}, y, x.rows, x.cols, x.type);
  const double scale = core::check_scale(name, options.scale, x.type);
  core::check_empty_row(name, options.empty_row);
  core::check_overlap(name, {"x", x}, {{"y", y}}, true);
  return {what, x, y, scale, options.empty_row};
}

}  // namespace
}  // namespace softfold::cpu_backend

namespace softfold::inline cpu {

using namespace cpu_backend;

void softmax(queue& q, const_matrix_ref x, matrix_ref y, const softmax_options& options) {
  launch(q.self(), check_map("softmax", operation::softmax, x, y, options));
}

void log_softmax(queue& q, const_matrix_ref x, matrix_ref y, const softmax_options& options) {
  launch(q.self(), check_map("log_softmax", operation::log_softmax, x, y, options));
}

void logsumexp(queue& q, const_matrix_ref x, vector_ref lse, const logsumexp_options& options) {
  constexpr const char* name = "logsumexp";
  core::check_input({name, "x"}, x);
  core::check_output_type({name, "lse"}, lse.type, x.type);
  const const_matrix_ref column =
      core::check_vector({name, "lse"}, lse.data, lse.type, lse.size, x.rows);
  const double scale = core::check_scale(name, options.scale, x.type);
  core::check_overlap(name, {"x", x}, {{"lse", column}}, false);
  launch(q.self(),
         {operation::logsumexp, x, {lse.data, lse.type, x.rows, 1, 1}, scale, empty_row::nan});
}

}  // namespace softfold::inline cpu
