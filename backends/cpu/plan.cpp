// SPDX-License-Identifier: Apache-2.0
#include "plan.hpp"

#include <algorithm>

namespace softfold::cpu_backend {
namespace {

/// Elements of a task: some microseconds of work, well above the cost of handing it out.
constexpr std::int64_t task_elements = 32768;

/// One row of the table: the first whose limits hold a shape is its plan.
struct rule {
  enum class span : std::uint8_t { l2, all_l2, any };
  span row;                ///< the exponentials of one row fit here
  span batch;              ///< input and output fit here
  bool streaming_machine;  ///< only where streamed stores are the faster ones
  second_pass second;
  bool stream;
};

// Exponentials are computed once where the output can stay in a cache until it is scaled.
// Results that leave the caches: on some processors stores past the caches are faster, as they
// save reading each line before it is overwritten, and then a row is computed twice rather than
// stored twice; on others ordinary stores are, and the first rule stays the best (measured with
// bench/: docs/benchmarks.md, "Plans").
constexpr rule rules[] = {
    {rule::span::any, rule::span::all_l2, true, second_pass::scale_output, false},
    {rule::span::any, rule::span::any, true, second_pass::recompute, true},
    {rule::span::any, rule::span::any, false, second_pass::scale_output, false},
};

bool fits(std::int64_t bytes, rule::span limit, const machine& caches, int threads) {
  const auto l2 = static_cast<std::int64_t>(caches.l2_bytes);
  switch (limit) {
    case rule::span::l2:
      return bytes <= l2 / 2;
    case rule::span::all_l2:
      return bytes <= l2 * threads;
    case rule::span::any:
      return true;
  }
  return false;
}

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

  const std::int64_t row_bytes = cols * problem.arithmetic_bytes;
  for (const rule& r : rules) {
    if (r.streaming_machine == caches.fast_streaming_stores &&
        fits(row_bytes, r.row, caches, threads) && fits(batch_bytes, r.batch, caches, threads)) {
      chosen.second = r.second;
      chosen.stream = r.stream;
      break;
    }
  }
  // The output can hold exponentials only if it is as wide as they are and not the input.
  if (chosen.second == second_pass::scale_output &&
      (problem.in_place || problem.output_bytes != problem.arithmetic_bytes)) {
    chosen.second = fits(row_bytes, rule::span::l2, caches, threads) ? second_pass::scale_scratch
                                                                     : second_pass::recompute;
  }
  // Tasks of one row share no scratch memory.
  if (chosen.over == spread::segments && chosen.second == second_pass::scale_scratch) {
    chosen.second = second_pass::recompute;
  }
  return chosen;
}

}  // namespace softfold::cpu_backend
