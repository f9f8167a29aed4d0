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

/// One row of the table: the first that holds for a machine and a batch is the plan.
struct rule {
  bool fast_streaming_stores;  ///< of the machine
  bool fits_l2;                ///< whether input and output must fit the second-level caches
  second_pass second;
  bool stream;
};

// Exponentials are computed once where the output can stay in a cache until it is scaled.
// Results that leave the caches are stored past them, which saves reading each line before it is
// overwritten. On some processors such stores are so fast that computing a row twice pays; on
// others they take their time, while the next row is computed (measured: docs/benchmarks.md,
// "Plans").
constexpr rule rules[] = {
    {true, true, second_pass::scale_output, false},
    {true, false, second_pass::recompute, true},
    {false, true, second_pass::scale_output, false},
    {false, false, second_pass::scale_behind, true},
};

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

  const auto l2_bytes = static_cast<std::int64_t>(caches.l2_bytes);
  for (const rule& r : rules) {
    if (r.fast_streaming_stores == caches.fast_streaming_stores &&
        (!r.fits_l2 || batch_bytes <= l2_bytes * threads)) {
      chosen.second = r.second;
      chosen.stream = r.stream;
      break;
    }
  }
  if (chosen.second == second_pass::scale_behind) {
    // The exponentials of two rows are in use at a time; tasks of one row share no scratch memory.
    if (cols * problem.arithmetic_bytes > l2_bytes || chosen.over == spread::segments) {
      chosen.stream = batch_bytes > static_cast<std::int64_t>(caches.l3_bytes);
      chosen.second = chosen.stream ? second_pass::recompute : second_pass::scale_output;
    } else if (chosen.over == spread::rows) {
      // The last row of a task has none to be stored along with.
      chosen.rows_per_task =
          std::max(chosen.rows_per_task,
                   std::min(rows_behind, problem.rows / (std::int64_t{threads} * rows_behind)));
    }
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
