// SPDX-License-Identifier: Apache-2.0
// The plan tables of devices, asked about devices that need not exist.
#include <backends/kokkos/team/plan.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>

using namespace softfold::kokkos_backend;

namespace {

constexpr team_limits gpu = {.vector_length = 32, .lanes = 1024};
constexpr team_limits wide_gpu = {.vector_length = 64, .lanes = 1024};
constexpr team_limits host = {};

constexpr std::int64_t lengths[] = {0,
                                    1,
                                    5,
                                    16,
                                    17,
                                    64,
                                    65,
                                    1024,
                                    1025,
                                    8192,
                                    8193,
                                    65536,
                                    65537,
                                    128256,
                                    1 << 20,
                                    1 << 24,
                                    std::int64_t{1} << 33,
                                    std::int64_t{1} << 40};

bool is_power_of_two(std::int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

}  // namespace

TEST_SUITE_BEGIN("plan");

TEST_CASE("every length has a plan within the device's limits") {
  for (const team_limits& limits : {gpu, wide_gpu, host}) {
    for (const std::int64_t cols : lengths) {
      CAPTURE(cols);
      const team_plan p = plan_rows(cols, limits);
      CHECK(p.team_size >= 1);
      CHECK(is_power_of_two(p.vector_length));
      CHECK(p.vector_length <= limits.vector_length);
      CHECK(p.team_size * p.vector_length <= limits.lanes);
      CHECK(p.segment >= 1);
      CHECK(p.segment <= std::int64_t{1} << 20);  // a lane counts columns in an int
      CHECK(p.segments_of(cols) * p.segment >= cols);
      CHECK((p.by == workers::teams) == (p.segments_of(cols) > 1));
    }
  }
}

TEST_CASE("short rows share a team, long rows have many") {
  CHECK(plan_rows(10, gpu).by == workers::thread);
  CHECK(plan_rows(10, gpu).vector_length == 4);
  CHECK(plan_rows(1000, gpu).by == workers::thread);
  CHECK(plan_rows(1000, gpu).vector_length == 32);
  CHECK(plan_rows(4000, gpu).by == workers::team);
  CHECK(plan_rows(50257, gpu).team_size == 32);
  CHECK(plan_rows(128256, gpu).by == workers::teams);
  CHECK(plan_rows(128256, gpu).segments_of(128256) == 32);
  CHECK(plan_rows(1 << 24, gpu).segments_of(1 << 24) == 512);
}

TEST_CASE("top-k has room for k and one more chunk") {
  for (const team_limits& limits : {gpu, wide_gpu, host}) {
    for (const std::int64_t cols : {1, 100, 5000, 128256, 1 << 22}) {
      for (const std::int64_t k : {1, 5, 64, 1024, 5000, 100000}) {
        if (k > cols) {
          continue;
        }
        CAPTURE(cols);
        CAPTURE(k);
        const topk_plan p = plan_topk(cols, k, 8, 40 << 10, limits);
        CHECK(is_power_of_two(p.capacity));
        CHECK(p.capacity >= k + p.chunk);
        CHECK(p.in_team_scratch == (p.capacity * 8 <= 40 << 10));
        CHECK(p.teams.segments_of(cols) * p.teams.segment >= cols);
        if (p.teams.by == workers::teams) {
          CHECK(k <= p.teams.segment / 8);
        }
      }
    }
  }
  CHECK(plan_topk(128256, 5, 8, 40 << 10, gpu).teams.by == workers::teams);
  CHECK(plan_topk(128256, 100000, 8, 40 << 10, gpu).teams.by == workers::team);
  CHECK_FALSE(plan_topk(128256, 100000, 8, 40 << 10, gpu).in_team_scratch);
}
