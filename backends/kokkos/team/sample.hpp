// SPDX-License-Identifier: Apache-2.0
/// \file
/// sample: one team for each row.
#pragma once

#include <core/sample_row.hpp>

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

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
