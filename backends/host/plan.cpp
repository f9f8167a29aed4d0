// SPDX-License-Identifier: Apache-2.0
#include "plan.hpp"

#include <algorithm>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// Elements of a task: some microseconds of work, well above the cost of handing it out.
constexpr std::int64_t task_elements = 32768;

/// Rows of a task that are stored one behind the other, if there are enough for all threads.
constexpr std::int64_t rows_behind = 8;

/// A thread's share of the last-level cache, which others use, too, in second-level caches.
constexpr std::int64_t last_level_share = 16;

}  // namespace

plan choose_plan(const shape& problem, const machine& caches, int threads,
                 const kernel_table& kernels) {
  const auto cols = std::max<std::int64_t>(problem.cols, 1);
  // In floating point: the product may not fit in 64 bits.
  const double elements = static_cast<double>(problem.rows) * static_cast<double>(cols);
  const double batch = elements * static_cast<double>(problem.input_bytes + problem.output_bytes);
  const auto batch_bytes = static_cast<std::int64_t>(std::min(batch, 0x1p62));

  plan chosen{};
  const std::int64_t lanes = kernels.lanes_f32 * 4 / problem.arithmetic_bytes;
  chosen.short_rows = cols <= short_row_vectors * lanes;
  chosen.topk_rows = problem.k > 0 && problem.k <= most_listed && cols <= segment_columns &&
                     problem.arithmetic_bytes == 4;
  chosen.rows_per_task = std::max<std::int64_t>(1, task_elements / cols);

  if (threads == 1 || elements < 2 * task_elements) {
    chosen.over = spread::serial;
  } else if (problem.rows < threads ? segments_of(cols) > 1
                                    : problem.rows < 4 * std::int64_t{threads} &&
                                          segments_of(cols) >= 4 * std::int64_t{threads}) {
    chosen.over = spread::segments;
  } else {
    chosen.over = spread::rows;
  }

  // Exponentials are computed once where the output can stay in a cache until it is scaled, and
  // where a row's can, which is stored while the next row is computed. Results that leave the
  // caches are stored past them, which saves reading each line before it is overwritten and is
  // worth computing a row twice (measured: docs/benchmarks.md, "Plans").
  const auto l2_bytes = static_cast<std::int64_t>(caches.l2_bytes);
  const std::int64_t l3_bytes =
      std::min(static_cast<std::int64_t>(caches.l3_bytes), last_level_share * l2_bytes * threads);
  // The last row of a task has none to be stored along with.
  const std::int64_t rows_together =
      chosen.over == spread::serial ? (problem.rows >= 4 ? problem.rows : 1)
      : chosen.over == spread::rows && problem.rows >= 4 * std::int64_t{threads}
          ? std::clamp<std::int64_t>(problem.rows / (std::int64_t{threads} * rows_behind), 2,
                                     rows_behind)
          : 1;
  if (batch_bytes <= l2_bytes * threads) {
    chosen.second = second_pass::scale_output;
  } else if (rows_together > 1 && cols * problem.arithmetic_bytes <= l2_bytes) {
    chosen.second = second_pass::scale_behind;
    chosen.stream = true;
    chosen.rows_per_task = std::max(chosen.rows_per_task, rows_together);
  } else {
    chosen.stream = batch_bytes > l3_bytes;
    chosen.second = chosen.stream ? second_pass::recompute : second_pass::scale_output;
  }
  // The output can hold exponentials only if it is as wide as they are and not the input.
  if (chosen.second == second_pass::scale_output &&
      (problem.in_place || problem.output_bytes != problem.arithmetic_bytes)) {
    chosen.second = cols * problem.arithmetic_bytes <= l2_bytes / 2 ? second_pass::scale_scratch
                                                                    : second_pass::recompute;
  }
  // Tasks of one row share no scratch memory.
  if (chosen.over == spread::segments && chosen.second == second_pass::scale_scratch) {
    chosen.second = second_pass::recompute;
  }
  return chosen;
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
