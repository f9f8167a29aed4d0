// SPDX-License-Identifier: Apache-2.0
#include "plan.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <string>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {
namespace {

constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();

/// One row of the table: the first whose columns suffice is the plan, within the limits.
struct rule {
  std::int64_t cols;  ///< at most
  workers by;
  int lanes;          ///< of a team
  int vector_length;  ///< 0: the longest
};

// A lane gets 4 to 64 elements of a row; enough lanes to hide the latency of memory, few enough
// that the combination of their states is cheap.
constexpr rule rules[] = {
    {16, workers::thread, 256, 4}, {64, workers::thread, 256, 16},  {1024, workers::thread, 256, 0},
    {8192, workers::team, 256, 0}, {65536, workers::team, 1024, 0}, {any, workers::teams, 256, 0},
};

/// Columns of the segments of long rows: enough teams for a device from one row, and few enough
/// that each can read the others' states.
constexpr std::int64_t shortest_segment = 4096;
constexpr std::int64_t longest_segment = std::int64_t{1} << 20;
constexpr std::int64_t segments_wanted = 512;

std::int64_t segment_of(std::int64_t cols) {
  const auto even = static_cast<std::uint64_t>((cols + segments_wanted - 1) / segments_wanted);
  return std::clamp(static_cast<std::int64_t>(std::bit_ceil(even)), shortest_segment,
                    longest_segment);
}

/// Elements of a chunk that one lane looks at.
constexpr int chunk_elements = 4;
constexpr int topk_lanes = 256;

plan_name name_of(workers by) {
  switch (by) {
    case workers::thread:
      return plan_name::thread;
    case workers::team:
      return plan_name::team;
    case workers::teams:
      return plan_name::teams;
  }
  return plan_name::any;
}

}  // namespace

team_plan plan_rows(std::int64_t cols, const team_limits& limits, plan_name forced) {
  const rule* chosen = std::begin(rules);
  while (cols > chosen->cols) {
    ++chosen;
  }
  if (forced != plan_name::any && name_of(chosen->by) != forced) {
    chosen = std::find_if(std::begin(rules), std::end(rules),
                          [&](const rule& r) { return name_of(r.by) == forced; });
  }
  team_plan plan;
  plan.by = chosen->by;
  plan.vector_length = chosen->vector_length == 0
                           ? limits.vector_length
                           : std::min(chosen->vector_length, limits.vector_length);
  plan.team_size = std::max(1, std::min(chosen->lanes, limits.lanes) / plan.vector_length);
  plan.segment = std::max<std::int64_t>(plan.by == workers::teams ? segment_of(cols) : cols, 1);
  return plan;
}

std::string to_text(const team_plan& plan) {
  return std::string(plan_names[static_cast<std::size_t>(name_of(plan.by))]) + ", " +
         std::to_string(plan.team_size) + " threads of " + std::to_string(plan.vector_length) +
         " lanes, " + std::to_string(plan.segment) + " columns";
}

topk_plan plan_topk(std::int64_t cols, std::int64_t k, int entry_bytes, int scratch_bytes,
                    const team_limits& limits, plan_name forced) {
  topk_plan plan;
  plan.teams.vector_length = limits.vector_length;
  plan.teams.team_size = std::max(1, std::min(topk_lanes, limits.lanes) / limits.vector_length);
  plan.chunk = plan.teams.team_size * limits.vector_length * chunk_elements;
  // Segments pay where each leaves far fewer candidates than it has columns.
  const std::int64_t segment = std::max<std::int64_t>(4 * segment_of(cols), 1);
  const bool is_long = forced == plan_name::any ? cols > segment : forced == plan_name::teams;
  const bool split = is_long && k <= segment / 8;
  plan.teams.by = split ? workers::teams : workers::team;
  plan.teams.segment = std::max<std::int64_t>(split ? segment : cols, 1);
  plan.capacity = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(k) + static_cast<std::uint64_t>(plan.chunk)));
  plan.in_team_scratch = plan.capacity <= scratch_bytes / entry_bytes;
  return plan;
}

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
