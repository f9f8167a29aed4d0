// SPDX-License-Identifier: Apache-2.0
/// \file
/// scan: a lane folds its part of the row, and scans it from the state of what comes before; by few
/// elements at a time, as a long chain of rising maxima would add up what each combination rounds.
#pragma once

#include "rows.hpp"

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

template <class T>
struct scan_rows {
  using A = arithmetic_t<T>;
  using state = typename row_source<T>::state;
  using monoid = typename row_source<T>::monoid;
  static constexpr std::int64_t together = 16;
  static constexpr int shared_bytes = most_lanes * static_cast<int>(sizeof(state));

  row_source<T> source;
  core::scan_problem p;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t r) const {
    const int lane = lanes.lane();
    const std::int64_t cols = source.cols;
    const std::int64_t part = (cols + lanes.lanes() - 1) / lanes.lanes();
    const std::int64_t first = lane * part;
    const std::int64_t end = first + part < cols ? first + part : cols;
    const auto column = [&](std::int64_t i) { return p.reverse ? cols - 1 - i : i; };

    state own = monoid::identity();
    for (std::int64_t begin = first; begin < end; begin += together) {
      state few = monoid::identity();
      for (std::int64_t i = begin; i < begin + together && i < end; ++i) {
        few = monoid::combine(few, source.at(r, column(i)));
      }
      own = monoid::combine(own, few);
    }
    auto* const parts = static_cast<state*>(lanes.memory);
    parts[lane] = own;
    lanes.sync();
    state before = monoid::identity();
    if (p.carry_in.data != nullptr) {
      before = state::of(static_cast<const max_sum<A>*>(p.carry_in.data)[r]);
    }
    for (int i = 0; i < lane; ++i) {
      before = monoid::combine(before, parts[i]);
    }
    const state after = monoid::combine(before, own);
    if (p.carry_out.data != nullptr && lane == lanes.lanes() - 1) {
      static_cast<max_sum<A>*>(p.carry_out.data)[r] = after.partial();
    }
    A log_before = before.logsumexp();
    for (std::int64_t begin = first; begin < end; begin += together) {
      state few = monoid::identity();
      for (std::int64_t i = begin; i < begin + together && i < end; ++i) {
        few = monoid::combine(few, source.at(r, column(i)));
        // The last inclusive result is that of the state the next lane begins with, so that
        // exclusive results are the same numbers.
        const A log = i == end - 1 ? after.logsumexp() : monoid::combine(before, few).logsumexp();
        core::write_real(p.lse.data, p.lse.type, r * p.lse.stride + column(i),
                         p.exclusive ? log_before : log);
        log_before = log;
      }
      before = monoid::combine(before, few);
    }
  }
};

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
