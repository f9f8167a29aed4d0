// SPDX-License-Identifier: Apache-2.0
/// \file
/// The lanes that work on one row together: the vector lanes of one thread of a team, or of all its
/// threads. Kernels are written once for both.
#pragma once

#include <Kokkos_Core.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

/// All vector lanes of a team.
template <class Member>
struct team_lanes {
  const Member& member;
  int width;

  /// body(i) for 0 <= i < n; neighbouring lanes take neighbouring i.
  template <class Index, class Body>
  KOKKOS_FUNCTION void each(Index n, const Body& body) const {
    Kokkos::parallel_for(Kokkos::TeamVectorRange(member, n), body);
  }
  /// body(i, state) for 0 <= i < n; the reduced state is every lane's result.
  template <class Body, class Reducer>
  KOKKOS_FUNCTION void reduce(int n, const Body& body, const Reducer& reducer) const {
    Kokkos::parallel_reduce(Kokkos::TeamVectorRange(member, n), body, reducer);
  }
  template <class Body>
  KOKKOS_FUNCTION void once(const Body& body) const {
    Kokkos::single(Kokkos::PerTeam(member), body);
  }
  KOKKOS_FUNCTION void barrier() const { member.team_barrier(); }
};

/// The vector lanes of one thread.
template <class Member>
struct thread_lanes {
  const Member& member;
  int width;

  template <class Index, class Body>
  KOKKOS_FUNCTION void each(Index n, const Body& body) const {
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(member, n), body);
  }
  template <class Body, class Reducer>
  KOKKOS_FUNCTION void reduce(int n, const Body& body, const Reducer& reducer) const {
    Kokkos::parallel_reduce(Kokkos::ThreadVectorRange(member, n), body, reducer);
  }
  template <class Body>
  KOKKOS_FUNCTION void once(const Body& body) const {
    Kokkos::single(Kokkos::PerThread(member), body);
  }
};

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
