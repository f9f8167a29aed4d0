// SPDX-License-Identifier: Apache-2.0
/// \file
/// From a row's length to the teams that work on it, as data. Needs no device, so that tests can
/// ask about any.
///
/// A plan depends on the length and the type of the rows and on the device, never on their number:
/// so do the bits of a row.
#pragma once

#include <softfold/config.hpp>

#include <cstdint>
#include <iterator>
#include <string>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

/// Who works on a row.
enum class workers : std::uint8_t {
  thread,  ///< the vector lanes of one thread of a team
  team,    ///< a team
  teams,   ///< a team for each segment of the row, in both passes
};

/// Plans by name.
enum class plan_name : std::uint8_t {
  any,     ///< the table's
  thread,  ///< workers::thread
  team,    ///< workers::team
  teams,   ///< workers::teams
};
inline constexpr const char* plan_names[] = {"", "thread", "team", "teams"};

static_assert(std::size(plan_names) == static_cast<std::size_t>(plan_name::teams) + 1);

/// What an execution space can do.
struct team_limits {
  int vector_length = 1;  ///< lanes of a thread: 32 or 64 on GPUs, 1 on hosts
  int lanes = 1;          ///< lanes of a team
};

struct team_plan {
  workers by = workers::team;
  int team_size = 1;
  int vector_length = 1;
  std::int64_t segment = 0;  ///< columns of a team's part of a row; all of them unless by teams

  [[nodiscard]] std::int64_t segments_of(std::int64_t cols) const {
    return (cols + segment - 1) / segment;
  }
};

/// The plan for folds and maps of rows of `cols` columns.
team_plan plan_rows(std::int64_t cols, const team_limits& limits,
                    plan_name forced = plan_name::any);

/// In words: the name, then who has how much of a row.
std::string to_text(const team_plan& plan);

/// Candidates that top-k keeps in a team's scratch memory, or in memory of the queue.
struct topk_plan {
  team_plan teams;
  int chunk = 1;                ///< columns between two looks at the number of candidates
  std::int64_t capacity = 0;    ///< candidates, a power of two of at least k + chunk
  bool in_team_scratch = true;  ///< else in memory of the queue
};

/// The plan for the k best of each row; entries of `entry_bytes` in at most `scratch_bytes`.
topk_plan plan_topk(std::int64_t cols, std::int64_t k, int entry_bytes, int scratch_bytes,
                    const team_limits& limits, plan_name forced = plan_name::any);

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
