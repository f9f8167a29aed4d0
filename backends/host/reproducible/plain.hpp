// SPDX-License-Identifier: Apache-2.0
/// \file
/// Rows as core/reproducible.hpp has them, element by element: what no kernel takes.
#pragma once

#include <core/exact_state.hpp>
#include <core/problem.hpp>
#include <core/real_types.hpp>
#include <core/reproducible.hpp>

#include <cstdint>
#include <limits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

template <class T>
core::reproducible::row_total<core::arithmetic_t<T>> plain_total(const T* x, std::int64_t cols,
                                                                 double scale) {
  using A = core::arithmetic_t<T>;
  return core::reproducible::total_of(static_cast<A>(scale), cols,
                                      [x](std::int64_t c) { return static_cast<A>(x[c]); });
}

template <class T>
exact_max_sum<core::arithmetic_t<T>> plain_state(const T* x, std::int64_t cols, double scale) {
  using A = core::arithmetic_t<T>;
  return core::reproducible::state_of(static_cast<A>(scale), cols,
                                      [x](std::int64_t c) { return static_cast<A>(x[c]); });
}

/// What every element of a row becomes that is not ordinary.
template <class A>
A result_of(core::reproducible::row_kind kind, empty_row policy, bool log) {
  if (kind == core::reproducible::row_kind::empty && policy == empty_row::zero) {
    return log ? -std::numeric_limits<A>::infinity() : A{0};
  }
  return std::numeric_limits<A>::quiet_NaN();
}

/// y[i] of x[0, n), some of the row's elements. y may be x.
template <class T, class Out>
void plain_map(const core::reproducible::row_total<core::arithmetic_t<T>>& row, const T* x,
               std::int64_t n, bool log, empty_row policy, Out* y) {
  using A = core::arithmetic_t<T>;
  const bool ordinary = row.kind == core::reproducible::row_kind::ordinary;
  const A other = result_of<A>(row.kind, policy, log);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto element = static_cast<A>(x[i]);
    y[i] = Out(!ordinary ? other : log ? row.log_softmax(element) : row.softmax(element));
  }
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
