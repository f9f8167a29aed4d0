// SPDX-License-Identifier: Apache-2.0
/// \file
/// fold, combine, normalize, log_normalize and logsumexp of states: check -> plan -> launch.
#include "parallel.hpp"
#include "row.hpp"
#include "row_fold.hpp"

#include <core/check_lists.hpp>
#include <core/monoid.hpp>

#include <cmath>

namespace softfold::cpu_backend {
namespace {

plan plan_of(const queue::state& queue, const const_matrix_ref& x, std::int64_t output_bytes,
             bool in_place) {
  return choose_plan(
      {.rows = x.rows,
       .cols = x.cols,
       .input_bytes = static_cast<std::int64_t>(size_of(x.type)),
       .output_bytes = output_bytes,
       .arithmetic_bytes = static_cast<std::int64_t>(size_of(core::arithmetic_type(x.type))),
       .in_place = in_place},
      queue.machine, queue.info.threads, queue.kernels);
}

void launch_fold(queue::state& queue, const const_matrix_ref& x, const partials_ref& partials,
                 double scale) {
  const plan plan = plan_of(queue, x, 0, false);
  const typed_kernels kernels = kernels_for(queue.kernels, x.type, partials.type);
  const auto segments = static_cast<std::size_t>(segments_of(x.cols));
  const int tasks = plan.over == spread::rows ? queue.info.threads : 1;
  auto* const states = reinterpret_cast<segment_state*>(
      queue.scratch.at_least(segments * static_cast<std::size_t>(tasks) * sizeof(segment_state)));
  over_rows(queue, plan, x.rows, [&](std::int64_t begin, std::int64_t end, int slot) {
    for (std::int64_t r = begin; r < end; ++r) {
      const row_state row =
          state_of_row(queue, plan, kernels, kernels.at(x.data, r * x.stride), x.cols, scale,
                       states + static_cast<std::size_t>(slot) * segments);
      write_partial(partials.data, partials.type, r, partial_of(row, kernels.computed));
    }
  });
}

template <class T>
void launch_combine(queue::state& queue, const void* more, void* partials, std::int64_t rows) {
  const auto* a = static_cast<const max_sum<T>*>(more);
  auto* b = static_cast<max_sum<T>*>(partials);
  const plan plan = choose_plan({.rows = rows,
                                 .cols = 2,
                                 .input_bytes = sizeof(T),
                                 .output_bytes = sizeof(T),
                                 .arithmetic_bytes = sizeof(T),
                                 .in_place = true},
                                queue.machine, queue.info.threads, queue.kernels);
  over_rows(queue, plan, rows, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      b[r] = core::max_sum_monoid<T>::combine(b[r], a[r]);
    }
  });
}

void launch_normalize(queue::state& queue, const const_matrix_ref& x,
                      const const_partials_ref& partials, const matrix_ref& y, double scale,
                      empty_row policy, bool log) {
  const plan plan = plan_of(queue, x, static_cast<std::int64_t>(size_of(y.type)), true);
  const typed_kernels kernels = kernels_for(queue.kernels, x.type, y.type);
  over_rows(queue, plan, x.rows, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      const row_state row =
          state_of(read_partial(partials.data, partials.type, r), scale, kernels.computed);
      const void* const in = kernels.at(x.data, r * x.stride);
      void* const out = kernels.result_at(y.data, r * y.stride);
      if (row.what != row_state::kind::ordinary) {
        fill(kernels, out, x.cols, fill_value(row.what, policy, log));
        continue;
      }
      const split_number lse = log ? log_of(row, kernels.computed) : split_number{};
      over_segments(queue, plan, x.cols, [&](std::int64_t segment) {
        const auto [first, count] = columns_of(segment, x.cols);
        const destination to{kernels.result_at(out, first), plan.stream};
        if (log) {
          kernels.output.log_probabilities(kernels.at(in, first), count, &row.e, lse.high, lse.low,
                                           to);
        } else {
          kernels.output.probabilities(kernels.at(in, first), count, &row.e, 1 / row.sum, to);
        }
        if (plan.stream && plan.over == spread::segments) {
          kernels.table.end_of_stream();
        }
      });
    }
  });
}

void run_normalize(const char* name, queue& q, const const_matrix_ref& x_part,
                   const const_partials_ref& partials, const matrix_ref& y,
                   const softmax_options& options, bool log) {
  core::check_input({name, "x_part"}, x_part);
  const const_matrix_ref states = core::check_partials({name, "partials"}, partials, x_part.rows,
                                                       core::arithmetic_type(x_part.type));
  core::check_output({name, "y"}, y, x_part.rows, x_part.cols, x_part.type);
  const double scale = core::check_scale(name, options.scale, x_part.type);
  core::check_empty_row(name, options.empty_row);
  core::check_overlap(name, {"x_part", x_part}, {{"y", y}}, true);
  core::check_overlap(name, {"partials", states}, {{"y", y}}, false);
  if (x_part.rows > 0 && x_part.cols > 0) {
    launch_normalize(q.self(), x_part, partials, y, scale, options.empty_row, log);
  }
}

}  // namespace
}  // namespace softfold::cpu_backend

namespace softfold {
inline namespace cpu {

using namespace cpu_backend;

void fold(queue& q, const_matrix_ref x_part, partials_ref partials,
          const logsumexp_options& options) {
  constexpr const char* name = "fold";
  core::check_input({name, "x_part"}, x_part);
  const const_matrix_ref states = core::check_partials({name, "partials"}, partials, x_part.rows,
                                                       core::arithmetic_type(x_part.type));
  const double scale = core::check_scale(name, options.scale, x_part.type);
  core::check_overlap(name, {"x_part", x_part}, {{"partials", states}}, false);
  if (x_part.rows > 0) {
    launch_fold(q.self(), x_part, partials, scale);
  }
}

void combine(queue& q, const_partials_ref more, partials_ref partials) {
  constexpr const char* name = "combine";
  core::check_state_type({name, "more"}, more.type);
  const const_matrix_ref from = core::check_partials({name, "more"}, more, more.size, more.type);
  const const_matrix_ref to =
      core::check_partials({name, "partials"}, partials, more.size, more.type);
  core::check_overlap(name, {"more", from}, {{"partials", to}}, true);
  if (more.size == 0) {
    return;
  }
  if (more.type == dtype::f64) {
    launch_combine<double>(q.self(), more.data, partials.data, more.size);
  } else {
    launch_combine<float>(q.self(), more.data, partials.data, more.size);
  }
}

void normalize(queue& q, const_matrix_ref x_part, const_partials_ref partials, matrix_ref y,
               const softmax_options& options) {
  run_normalize("normalize", q, x_part, partials, y, options, false);
}

void log_normalize(queue& q, const_matrix_ref x_part, const_partials_ref partials, matrix_ref y,
                   const softmax_options& options) {
  run_normalize("log_normalize", q, x_part, partials, y, options, true);
}

void logsumexp(queue& /*q*/, const_partials_ref partials, vector_ref lse) {
  core::check_logsumexp("logsumexp", partials, lse);
  for (std::int64_t r = 0; r < partials.size; ++r) {
    const max_sum<double> row = read_partial(partials.data, partials.type, r);
    write_real(static_cast<std::byte*>(lse.data) + r * static_cast<std::int64_t>(size_of(lse.type)),
               lse.type, row.max + std::log(row.sum));
  }
}

}  // namespace cpu
}  // namespace softfold
