// SPDX-License-Identifier: Apache-2.0
// The plan table, asked about machines that need not exist.
#include <backends/host/plan/plan.hpp>

#include <doctest/doctest.h>

#include <utility>

using namespace softfold::host;

namespace {

const machine small_caches = {
    .processor = "small", .l1_bytes = 32 << 10, .l2_bytes = 1 << 20, .l3_bytes = 16 << 20};

plan plan_for(std::int64_t rows, std::int64_t cols, int threads, bool in_place = false,
              std::int64_t input_bytes = 4, std::int64_t output_bytes = 4,
              const machine& caches = small_caches, bool keeps = true) {
  return choose_plan({.rows = rows,
                      .cols = cols,
                      .input_bytes = input_bytes,
                      .output_bytes = output_bytes,
                      .arithmetic_bytes = 4,
                      .in_place = in_place,
                      .keeps = keeps},
                     caches, threads, baseline_kernels);
}

}  // namespace

TEST_SUITE_BEGIN("plan");

TEST_CASE("whether rows are short depends on their length only") {
  const std::int64_t longest = short_row_vectors * baseline_kernels.lanes_f32;
  for (const std::int64_t rows : {1, 3, 1000, 10000000}) {
    for (const int threads : {1, 2, 64}) {
      CHECK(plan_for(rows, longest, threads).short_rows);
      CHECK_FALSE(plan_for(rows, longest + 1, threads).short_rows);
    }
  }
}

TEST_CASE("of reproducible rows more are short") {
  const std::int64_t cols = 256 * baseline_kernels.lanes_f32;
  const auto are_short = [](std::int64_t rows, std::int64_t columns, std::int64_t output_bytes,
                            std::int64_t short_columns = 0) {
    const shape of = {.rows = rows,
                      .cols = columns,
                      .input_bytes = output_bytes,
                      .output_bytes = output_bytes,
                      .arithmetic_bytes = 4,
                      .in_place = false,
                      .keeps = output_bytes != 0,
                      .short_vectors = 256,
                      .short_columns = short_columns};
    return choose_plan(of, small_caches, 1, baseline_kernels).short_rows;
  };
  for (const std::int64_t output_bytes : {0, 2, 4}) {
    CHECK(are_short(16, cols, output_bytes));
    CHECK_FALSE(are_short(16, cols + 1, output_bytes));
    CHECK(are_short(100000, cols, output_bytes));
    CHECK(are_short(100000, cols + 1, output_bytes, cols + 1));
    CHECK_FALSE(are_short(100000, cols + 2, output_bytes, cols + 1));
    // In a cache only if they are not long, or nothing is kept of them.
    CHECK(are_short(16, cols + 1, output_bytes, 2 * (cols + 1)));
    CHECK(are_short(16, cols + 1, output_bytes, cols + 1) == (output_bytes == 0));
  }
}

TEST_CASE(
    "lines ahead stay out of the first-level cache where little is kept of rows from memory") {
  const auto stay_out = [](std::int64_t rows, std::int64_t columns, std::int64_t bytes) {
    return plan_for(rows, columns, 1, false, bytes, bytes).ahead_to_l2;
  };
  const auto most = static_cast<std::int64_t>(small_caches.l2_bytes / 16);
  const auto rows_in_l3 = static_cast<std::int64_t>(small_caches.l3_bytes) / (8 * most);
  CHECK(stay_out(rows_in_l3 + 1, most, 4));
  CHECK_FALSE(stay_out(rows_in_l3, most, 4));
  CHECK_FALSE(stay_out(rows_in_l3 + 1, most + 1, 4));
  CHECK_FALSE(stay_out(4 * rows_in_l3, most, 2));
}

TEST_CASE("one thread, or little work, is not spread") {
  CHECK(plan_for(100000, 1000, 1).over == spread::serial);
  CHECK(plan_for(4, 1000, 8).over == spread::serial);
}

TEST_CASE("many rows are spread by rows, few long ones by segments") {
  CHECK(plan_for(4000, 25000, 2).over == spread::rows);
  CHECK(plan_for(1, 128256, 2).over == spread::segments);
  CHECK(plan_for(1, 1 << 20, 64).over == spread::segments);
  CHECK(plan_for(3, 1 << 20, 2).over == spread::segments);
  // A row's segments are waited for, row by row, which costs more than threads without a row.
  CHECK(plan_for(8, 32768, 16).over == spread::rows);
  CHECK(plan_for(8, 151936, 16).over == spread::rows);
  CHECK(plan_for(2, 1 << 20, 16).over == spread::segments);
  CHECK(plan_for(1000, 128, 2).over == spread::rows);
}

TEST_CASE("every task has rows, and enough work where rows are short") {
  CHECK(plan_for(4000, 1 << 24, 2).rows_per_task == 1);
  const plan p = plan_for(1000000, 16, 2);
  CHECK(p.rows_per_task * 16 >= 16384);
}

TEST_CASE("results that stay in a cache are stored there") {
  for (const int threads : {1, 2}) {
    const plan p = plan_for(std::int64_t{32} * threads, 4096, threads);
    CHECK(p.second == second_pass::scale_output);
    CHECK_FALSE(p.stream);
    CHECK(plan_for(std::int64_t{32} * threads + 1, 4096, threads).stream);
  }
}

TEST_CASE("others are streamed, behind the next row where a row's exponentials stay in a cache") {
  for (const bool in_place : {false, true}) {
    for (const std::int64_t output_bytes : {2, 4}) {
      const plan p = plan_for(4096, 1024, 1, in_place, output_bytes, output_bytes);
      CHECK(p.second == second_pass::scale_behind);
      CHECK(p.stream);
    }
  }
  CHECK(plan_for(1000, 262144, 1).second == second_pass::scale_behind);
  CHECK(plan_for(1000, 262145, 1).second == second_pass::recompute);
  CHECK(plan_for(1000, 262145, 1).stream);
  // One row has no next one, nor has a task of one; of two only one has.
  CHECK(plan_for(2, 131072, 1).second == second_pass::scale_output);
  CHECK(plan_for(1, 200000, 1).second == second_pass::scale_output);
  CHECK(plan_for(4000, 32768, 2).rows_per_task > 1);
  CHECK(plan_for(16, 131071, 2).second == second_pass::scale_behind);
  CHECK(plan_for(16, 131071, 2).rows_per_task > 1);
  // Two rows' have no room there: to memory yes, within the last level's share no.
  CHECK(plan_for(17, 131072, 2).second == second_pass::scale_behind);
  CHECK(plan_for(16, 131072, 2).second == second_pass::scale_output);
  CHECK(plan_for(12, 131072, 4).second == second_pass::scale_output);  // or threads would be idle
  const plan few = plan_for(3, 1 << 18, 2);
  CHECK(few.over == spread::segments);
  CHECK(few.second == second_pass::scale_output);
}

TEST_CASE("long rows that a share of the last-level cache holds are not streamed") {
  CHECK(plan_for(4, 1 << 19, 1).second == second_pass::scale_output);
  CHECK_FALSE(plan_for(4, 1 << 19, 1).stream);
  CHECK(plan_for(5, 1 << 19, 1).second == second_pass::recompute);
  machine caches = small_caches;
  caches.l3_bytes = 512 << 20;  // which is shared by many
  CHECK_FALSE(plan_for(4, 1 << 19, 1, false, 4, 4, caches).stream);
  CHECK(plan_for(5, 1 << 19, 1, false, 4, 4, caches).stream);
  CHECK_FALSE(plan_for(8, 1 << 19, 2, false, 4, 4, caches).stream);
  caches.l3_bytes = 0;
  CHECK(plan_for(1, 1 << 19, 1, false, 4, 4, caches).stream);
}

TEST_CASE("top-k of short rows takes few elements of one segment, of 32 bits") {
  const auto takes = [](std::int64_t cols, std::int64_t k, std::int64_t arithmetic_bytes) {
    return choose_plan({.rows = 100,
                        .cols = cols,
                        .input_bytes = arithmetic_bytes,
                        .output_bytes = 0,
                        .arithmetic_bytes = arithmetic_bytes,
                        .in_place = false,
                        .k = k},
                       small_caches, 2, baseline_kernels)
        .topk_rows;
  };
  CHECK(takes(64, 5, 4));
  CHECK(takes(segment_columns, most_listed, 4));
  CHECK_FALSE(takes(segment_columns + 1, 5, 4));
  CHECK_FALSE(takes(1000, most_listed + 1, 4));
  CHECK_FALSE(takes(64, 0, 4));
  CHECK_FALSE(takes(64, 5, 8));
}

TEST_CASE("the output holds exponentials only if it is wide enough and not the input") {
  CHECK(plan_for(16, 4096, 1, true).second != second_pass::scale_output);
  CHECK(plan_for(16, 4096, 1, false, 2, 2).second != second_pass::scale_output);
  CHECK(plan_for(16, 4096, 1, false, 2, 4).second == second_pass::scale_output);
}

TEST_CASE("what keeps no exponentials looks twice, and is streamed where the others are") {
  for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{32, 4096},
                                   {4096, 1024},
                                   {1000, 262144},
                                   {1000, 262145},
                                   {1, 200000}}) {
    for (const int threads : {1, 2}) {
      const plan keeping = plan_for(rows, cols, threads);
      const plan p = plan_for(rows, cols, threads, false, 4, 4, small_caches, false);
      CHECK(p.second == second_pass::recompute);
      CHECK(p.stream == keeping.stream);
      CHECK(p.over == keeping.over);
      CHECK(p.rows_per_task == keeping.rows_per_task);
    }
  }
}

TEST_CASE("segments of one row share no scratch memory") {
  for (const std::int64_t cols : {100000, 128256, 1 << 22}) {
    for (const bool in_place : {false, true}) {
      const plan p = plan_for(1, cols, 8, in_place, 2, 2);
      REQUIRE(p.over == spread::segments);
      CHECK(p.second == second_pass::recompute);
    }
  }
}

TEST_CASE("sizes whose product overflows still have a plan") {
  const plan p = plan_for(std::int64_t{1} << 40, std::int64_t{1} << 40, 4);
  CHECK(p.over == spread::rows);
  CHECK(p.stream);
}
