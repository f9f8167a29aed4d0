// SPDX-License-Identifier: Apache-2.0
/// \file
/// fold, combine, normalize, log_normalize and logsumexp of states: plan -> launch.
#include "launch.hpp"
#include "parallel.hpp"
#include "row.hpp"
#include "row_fold.hpp"

#include <core/monoid.hpp>

#include <cmath>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

plan plan_of(const executor& queue, const const_matrix_ref& x, std::int64_t output_bytes,
             bool in_place) {
  return choose_plan(
      {.rows = x.rows,
       .cols = x.cols,
       .input_bytes = static_cast<std::int64_t>(size_of(x.type)),
       .output_bytes = output_bytes,
       .arithmetic_bytes = static_cast<std::int64_t>(size_of(core::arithmetic_type(x.type))),
       .in_place = in_place},
      queue.machine, queue.threads, queue.kernels);
}

void launch_fold(executor& queue, const const_matrix_ref& x, const partials_ref& partials,
                 double scale) {
  const plan plan = plan_of(queue, x, 0, false);
  const typed_kernels kernels = kernels_for(queue.kernels, x.type, partials.type);
  const auto segments = static_cast<std::size_t>(segments_of(x.cols));
  const int tasks = plan.over == spread::rows ? queue.threads : 1;
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
void launch_combine(executor& queue, const void* more, void* partials, std::int64_t rows) {
  const auto* a = static_cast<const max_sum<T>*>(more);
  auto* b = static_cast<max_sum<T>*>(partials);
  const plan plan = choose_plan({.rows = rows,
                                 .cols = 2,
                                 .input_bytes = sizeof(T),
                                 .output_bytes = sizeof(T),
                                 .arithmetic_bytes = sizeof(T),
                                 .in_place = true},
                                queue.machine, queue.threads, queue.kernels);
  over_rows(queue, plan, rows, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      b[r] = core::max_sum_monoid<T>::combine(b[r], a[r]);
    }
  });
}

void launch_normalize(executor& queue, const const_matrix_ref& x,
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

}  // namespace

void launch(executor& queue, const core::fold_problem& p) {
  if (p.x.rows > 0) {
    launch_fold(queue, p.x, p.partials, p.scale);
  }
}

void launch(executor& queue, const core::combine_problem& p) {
  if (p.more.size == 0) {
    return;
  }
  if (p.more.type == dtype::f64) {
    launch_combine<double>(queue, p.more.data, p.partials.data, p.more.size);
  } else {
    launch_combine<float>(queue, p.more.data, p.partials.data, p.more.size);
  }
}

void launch(executor& queue, const core::normalize_problem& p) {
  if (p.x.rows > 0 && p.x.cols > 0) {
    launch_normalize(queue, p.x, p.partials, p.y, p.scale, p.policy, p.log);
  }
}

void launch(executor& /*queue*/, const core::state_problem& p) {
  for (std::int64_t r = 0; r < p.partials.size; ++r) {
    const max_sum<double> row = read_partial(p.partials.data, p.partials.type, r);
    write_real(
        static_cast<std::byte*>(p.lse.data) + r * static_cast<std::int64_t>(size_of(p.lse.type)),
        p.lse.type, row.max + std::log(row.sum));
  }
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
