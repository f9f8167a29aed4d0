// SPDX-License-Identifier: Apache-2.0
/// \file
/// The threads of a team as the lanes that work on one row together, and the one kernel of all jobs
/// that need them.
#pragma once

#include <core/monoid.hpp>

#include <Kokkos_Core.hpp>

#include <softfold/config.hpp>

#include <cstddef>
#include <cstdint>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

/// Of a device's teams; a host's have one.
inline constexpr int most_lanes = 128;

/// A monoid as a Kokkos reducer.
template <core::monoid Monoid>
class monoid_reducer {
 public:
  using reducer = monoid_reducer;
  using value_type = typename Monoid::value_type;
  using result_view_type = Kokkos::View<value_type, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;

  KOKKOS_FUNCTION explicit monoid_reducer(value_type& result) : result_(&result) {}

  KOKKOS_FUNCTION void init(value_type& value) const { value = Monoid::identity(); }
  KOKKOS_FUNCTION void join(value_type& into, const value_type& other) const {
    into = Monoid::combine(into, other);
  }
  KOKKOS_FUNCTION value_type& reference() const { return *result_; }
  KOKKOS_FUNCTION result_view_type view() const { return result_view_type(result_); }
  KOKKOS_FUNCTION bool references_scalar() const { return true; }

 private:
  value_type* result_;
};

template <class Member>
struct team_lanes {
  const Member& member;
  void* memory;  ///< that they share

  KOKKOS_FUNCTION int lane() const { return member.team_rank(); }
  KOKKOS_FUNCTION int lanes() const { return member.team_size(); }
  KOKKOS_FUNCTION void sync() const { member.team_barrier(); }
  KOKKOS_FUNCTION static std::uint64_t add(std::uint64_t* to, std::uint64_t value) {
    return Kokkos::atomic_fetch_add(to, value);
  }

  /// body(i) for 0 <= i < n; neighbouring lanes take neighbouring i.
  template <class Body>
  KOKKOS_FUNCTION void each(std::int64_t n, const Body& body) const {
    for (std::int64_t i = lane(); i < n; i += lanes()) {
      body(i);
    }
  }
  /// The same with a lane's state, body(i, state); all states together are every lane's result.
  template <core::monoid Monoid, class Body>
  KOKKOS_FUNCTION typename Monoid::value_type reduce(std::int64_t n, const Body& body) const {
    auto result = Monoid::identity();
    Kokkos::parallel_reduce(Kokkos::TeamThreadRange(member, n), body,
                            monoid_reducer<Monoid>(result));
    return result;
  }
};

/// job(lanes, row) for each row by a team. The lanes share Job::shared_bytes of memory.
template <class Exec, class Job>
struct rows_by_teams {
  using member_type = typename Kokkos::TeamPolicy<Exec>::member_type;
  Job job;
  std::int64_t rows;

  KOKKOS_FUNCTION void operator()(const member_type& member) const {
    const team_lanes<member_type> lanes{
        member, member.team_scratch(0).get_shmem_aligned(Job::shared_bytes, 16)};
    for (std::int64_t r = member.league_rank(); r < rows; r += member.league_size()) {
      job(lanes, r);
      lanes.sync();
    }
  }
};

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
