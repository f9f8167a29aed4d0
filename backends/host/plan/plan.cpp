// SPDX-License-Identifier: Apache-2.0
#include <backends/host/plan/plan.hpp>

#include <algorithm>
#include <string>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// Elements of a task: some microseconds of work, well above the cost of handing it out.
constexpr std::int64_t task_elements = 32768;

/// What it costs to spread a row's segments and to wait for all, in elements for each thread; and
/// the share of whole rows' time that segments have to stay below, whose rows cannot stand behind.
constexpr std::int64_t meeting_elements = 3072;
constexpr double segments_share = 0.8;

/// Rows of a task that are stored one behind the other, if there are enough for all threads.
constexpr std::int64_t rows_behind = 8;

/// A thread's share of the last-level cache, which others use, too, in second-level caches.
constexpr std::int64_t last_level_share = 16;

/// Where a row's elements are between its two looks.
enum place : std::uint8_t {
  in_caches,  ///< all of the call's in the threads' second-level caches
  in_one,     ///< the row's in a second-level cache, other rows before and after it
  in_share,   ///< all of the call's in the threads' share of the last-level cache
  in_memory,
  places
};

/// Where a row's exponentials may wait for the second look.
enum keeping : std::uint8_t { nowhere, behind, scratch, output, keepings };

/// How the second look is taken. Exponentials are computed once where the output can stay in a
/// cache until it is scaled, and where a row's can, which is stored while the next row is computed.
/// Results that leave the caches are stored past them, which saves reading each line before it is
/// overwritten and is worth computing a row twice (measured: docs/notes.md).
struct second_look {
  second_pass second;
  bool stream;
};
constexpr second_look recompute{second_pass::recompute, false};
constexpr second_look recompute_past{second_pass::recompute, true};
constexpr second_look in_scratch{second_pass::scale_scratch, false};
constexpr second_look in_output{second_pass::scale_output, false};
constexpr second_look stand_behind{second_pass::scale_behind, true};
constexpr second_look second_looks[places][keepings] = {
    //            nowhere         behind          scratch         output
    /* caches */ {recompute, recompute, in_scratch, in_output},
    /* one    */ {recompute_past, stand_behind, stand_behind, stand_behind},
    /* share  */ {recompute, recompute, in_scratch, in_output},
    /* memory */ {recompute_past, recompute_past, recompute_past, recompute_past}};

spread spread_of(std::int64_t rows, std::int64_t cols, std::int64_t threads, plan_name forced) {
  // In floating point: products may not fit in 64 bits.
  const auto columns = static_cast<double>(cols);
  const double elements = static_cast<double>(rows) * columns;
  if (threads > 1 && (forced == plan_name::rows || forced == plan_name::segments)) {
    return forced == plan_name::rows ? spread::rows : spread::segments;
  }
  if (forced == plan_name::serial || threads == 1 || elements < 2 * task_elements) {
    return spread::serial;
  }
  // The longest that a thread works: at whole rows, or at its part of each, one row after the
  // other.
  const std::int64_t most_rows = (rows + threads - 1) / threads;
  const double by_rows = static_cast<double>(most_rows) * columns;
  const double by_segments =
      static_cast<double>(rows) *
      (columns / static_cast<double>(threads) + static_cast<double>(meeting_elements * threads));
  return segments_of(cols) > 1 && by_segments < segments_share * by_rows ? spread::segments
                                                                         : spread::rows;
}

/// What is forced, if exponentials can wait there, or else the table's.
second_look look_of(plan_name forced, keeping keep, const second_look& usual) {
  switch (forced) {
    case plan_name::recompute:
      return recompute;
    case plan_name::recompute_past:
      return recompute_past;
    case plan_name::scale_output:
      return keep == output ? in_output : usual;
    case plan_name::scale_scratch:
      return keep == output || keep == scratch ? in_scratch : usual;
    case plan_name::scale_behind:
      return keep != nowhere ? stand_behind : usual;
    default:
      return usual;
  }
}

/// Rows of a task that can be stored behind each other. The last one of a task has none to be
/// stored along with.
std::int64_t rows_together(spread over, std::int64_t rows, std::int64_t threads) {
  if (over == spread::serial) {
    return rows >= 4 ? rows : 1;
  }
  return over == spread::rows && rows >= 4 * threads
             ? std::clamp<std::int64_t>(rows / (threads * rows_behind), 2, rows_behind)
             : 1;
}

}  // namespace

plan choose_plan(const shape& problem, const machine& caches, int threads,
                 const kernel_table& kernels, plan_name forced) {
  const auto cols = std::max<std::int64_t>(problem.cols, 1);
  // In floating point: the product may not fit in 64 bits.
  const double elements = static_cast<double>(problem.rows) * static_cast<double>(cols);
  const double batch = elements * static_cast<double>(problem.input_bytes + problem.output_bytes);
  const auto batch_bytes = static_cast<std::int64_t>(std::min(batch, 0x1p62));
  const auto l2_bytes = static_cast<std::int64_t>(caches.l2_bytes);
  const std::int64_t l3_bytes =
      std::min(static_cast<std::int64_t>(caches.l3_bytes), last_level_share * l2_bytes * threads);
  const std::int64_t row_bytes = cols * problem.arithmetic_bytes;
  const std::int64_t lanes = kernels.lanes_f32 * 4 / problem.arithmetic_bytes;

  plan chosen{};
  const bool many_at_once = forced != plan_name::row_by_row;
  // That a single column gives exactly 1 is had from these kernels alone.
  chosen.short_rows = (many_at_once || cols == 1) &&
                      cols <= std::max(problem.short_vectors * lanes, problem.short_columns);
  chosen.topk_rows = many_at_once && problem.k > 0 && problem.k <= most_listed &&
                     cols <= segment_columns && problem.arithmetic_bytes == 4;
  chosen.over = spread_of(problem.rows, cols, threads, forced);
  chosen.rows_per_task = std::max<std::int64_t>(1, task_elements / cols);

  const std::int64_t together = rows_together(chosen.over, problem.rows, threads);
  // Two rows' exponentials stand behind each other. More than the second-level cache has room for
  // is worth it where results go to memory anyway.
  const std::int64_t most_behind = batch_bytes <= l3_bytes ? (l2_bytes - 1) / 2 : l2_bytes;
  const place where = batch_bytes <= l2_bytes * threads          ? in_caches
                      : together > 1 && row_bytes <= most_behind ? in_one
                      : batch_bytes <= l3_bytes                  ? in_share
                                                                 : in_memory;
  // Where an output stays in a second-level cache, terms of the longer of these rows had better be
  // kept there than stored behind.
  if (where == in_caches && problem.keeps && 2 * cols > problem.short_columns &&
      cols > problem.short_vectors * lanes) {
    chosen.short_rows = false;
  }
  if (where == in_one) {
    chosen.rows_per_task = std::max(chosen.rows_per_task, together);
  }
  // The output can hold exponentials only if it is as wide as they are and not the input; tasks of
  // one row share no scratch memory.
  const keeping keep = !problem.keeps ? nowhere
                       : !problem.in_place && problem.output_bytes == problem.arithmetic_bytes
                           ? output
                       : row_bytes <= l2_bytes / 2 && chosen.over != spread::segments ? scratch
                                                                                      : behind;
  const second_look look = look_of(forced, keep, second_looks[where][keep]);
  chosen.second = look.second;
  chosen.stream = look.stream;
  chosen.ahead_to_l2 = problem.input_bytes == problem.arithmetic_bytes &&
                       row_bytes <= l2_bytes / 4 &&
                       batch_bytes > static_cast<std::int64_t>(caches.l3_bytes);
  return chosen;
}

std::string to_text(const plan& plan) {
  plan_name over = plan_name::serial;
  switch (plan.over) {
    case spread::serial:
      break;
    case spread::rows:
      over = plan_name::rows;
      break;
    case spread::segments:
      over = plan_name::segments;
      break;
  }
  plan_name second = plan.stream ? plan_name::recompute_past : plan_name::recompute;
  switch (plan.second) {
    case second_pass::recompute:
      break;
    case second_pass::scale_output:
      second = plan_name::scale_output;
      break;
    case second_pass::scale_scratch:
      second = plan_name::scale_scratch;
      break;
    case second_pass::scale_behind:
      second = plan_name::scale_behind;
      break;
  }
  const auto name = [](plan_name n) {
    return std::string(plan_names[static_cast<std::size_t>(n)]);
  };
  return name(over) +
         (plan.short_rows || plan.topk_rows ? "" : ", " + name(plan_name::row_by_row)) + ", " +
         name(second);
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
