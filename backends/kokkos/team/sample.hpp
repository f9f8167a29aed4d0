// SPDX-License-Identifier: Apache-2.0
/// \file
/// sample and fold_sample: one team for each row; verify by ratio: one for each chain. Otherwise
/// one thread.
#pragma once

#include <core/sample_parts_row.hpp>
#include <core/sample_row.hpp>
#include <core/verify_row.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

/// The threads of a team.
template <class Member>
struct member_lanes {
  const Member& member;

  KOKKOS_FUNCTION int lane() const { return member.team_rank(); }
  KOKKOS_FUNCTION int lanes() const { return member.team_size(); }
  KOKKOS_FUNCTION void sync() const { member.team_barrier(); }
  KOKKOS_FUNCTION static std::uint64_t add(std::uint64_t* to, std::uint64_t value) {
    return Kokkos::atomic_fetch_add(to, value);
  }
};

template <class Exec, class T>
struct sample_rows {
  using member_type = typename Kokkos::TeamPolicy<Exec>::member_type;

  core::sample_problem problem;
  std::int64_t first;

  KOKKOS_FUNCTION void operator()(const member_type& member) const {
    namespace sampling = core::sampling;
    using row_of = sampling::row_of<T>;
    const std::int64_t r = first + member.league_rank();
    auto* const memory = static_cast<sampling::row_memory*>(
        member.team_scratch(0).get_shmem_aligned(sizeof(sampling::row_memory), 16));
    const row_of row{static_cast<const T*>(problem.x.data) + r * problem.x.stride};
    const member_lanes<member_type> lanes{member};
    sampling::row_sampler<typename row_of::A, member_lanes<member_type>, row_of>(lanes, *memory,
                                                                                 row, problem, r)
        .run();
  }
};

template <class Exec, class T>
struct fold_sample_rows {
  using member_type = typename Kokkos::TeamPolicy<Exec>::member_type;

  core::fold_sample_problem problem;
  std::int64_t first;

  static constexpr int most_lanes = 128;
  static constexpr int shared_bytes = most_lanes * static_cast<int>(sizeof(sample_state)) + 64;

  KOKKOS_FUNCTION void operator()(const member_type& member) const {
    namespace sampling = core::sampling;
    using row_of = sampling::part_of_row<T>;
    const std::int64_t r = first + member.league_rank();
    auto* const slots = static_cast<sample_state*>(
        member.team_scratch(0).get_shmem_aligned(most_lanes * sizeof(sample_state), 16));
    const row_of row{static_cast<const T*>(problem.x.data) + r * problem.x.stride,
                     problem.options.column_offset};
    const member_lanes<member_type> lanes{member};
    const sample_state empty = sampling::empty_state_of<typename row_of::A>(problem, r);
    sampling::fold_columns<typename row_of::A>(lanes, slots, row, empty, row.first,
                                               row.first + problem.x.cols);
    if (lanes.lane() == 0) {
      problem.states.data[r] = slots[0];
    }
  }
};

struct combine_sample_states {
  const sample_state* more;
  sample_state* states;

  KOKKOS_FUNCTION void operator()(std::int64_t r) const {
    core::sampling::combine(states[r], more[r]);
  }
};

struct finish_sample_states {
  core::finish_sample_problem problem;

  KOKKOS_FUNCTION void operator()(std::int64_t r) const {
    core::sampling::finish_sample_row(problem, r);
  }
};

struct verify_coupled_chains {
  core::coupled_problem problem;

  KOKKOS_FUNCTION void operator()(std::int64_t chain) const {
    core::sampling::verify_coupled(problem, chain);
  }
};

template <class Exec, class T>
struct verify_chains_by_ratio {
  using member_type = typename Kokkos::TeamPolicy<Exec>::member_type;

  core::ratio_problem problem;
  std::int64_t first;

  KOKKOS_FUNCTION void operator()(const member_type& member) const {
    namespace sampling = core::sampling;
    auto* const memory = static_cast<sampling::row_memory*>(
        member.team_scratch(0).get_shmem_aligned(sizeof(sampling::row_memory), 16));
    const member_lanes<member_type> lanes{member};
    const auto targets = sampling::rows_in<T>(problem.sampling.x);
    const auto drafts = sampling::rows_in<T>(problem.draft);
    sampling::ratio_chain<arithmetic_t<T>, member_lanes<member_type>, sampling::rows_of<T>>(
        lanes, *memory, targets, drafts, problem, first + member.league_rank())
        .run();
  }
};

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
