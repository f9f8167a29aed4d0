// SPDX-License-Identifier: Apache-2.0
/// \file
/// A row's state, and what follows from it alone.
#pragma once

#include "lanes.hpp"

#include <core/problem.hpp>
#include <core/real_types.hpp>
#include <core/scan_state.hpp>
#include <core/two_sum.hpp>
#include <core/typed_memory.hpp>

#include <softfold/max_sum.hpp>

#include <Kokkos_Core.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

using core::arithmetic_t;

/// Rows, and the scale that they are folded with.
template <class T>
struct row_source {
  using A = arithmetic_t<T>;
  using state = core::scan_state<A>;
  using monoid = core::scan_monoid<A>;
  const T* x;
  std::int64_t stride;
  std::int64_t cols;
  A scale;

  row_source(const const_matrix_ref& from, double by)
      : x(static_cast<const T*>(from.data)),
        stride(from.stride),
        cols(from.cols),
        scale(static_cast<A>(by)) {}

  KOKKOS_FUNCTION A element(std::int64_t r, std::int64_t i) const {
    return static_cast<A>(x[r * stride + i]);
  }
  KOKKOS_FUNCTION state at(std::int64_t r, std::int64_t i) const {
    return state::of(element(r, i), scale);
  }
  template <class Lanes>
  KOKKOS_FUNCTION state fold(const Lanes& lanes, std::int64_t r) const {
    return lanes.template reduce<monoid>(
        cols, [&](std::int64_t i, state& sum) { sum = monoid::combine(sum, at(r, i)); });
  }
};

/// softmax or log-softmax of elements, given the state of their row.
template <class A>
class softmax_of {
 public:
  using state = core::scan_state<A>;

  /// `is_public`: the state is a max_sum. Far from 0 its sum is relative to the exact maximum, at
  /// which each element stands whose product rounds like it.
  KOKKOS_FUNCTION softmax_of(const state& whole, empty_row policy, bool log, bool is_public)
      : whole_(whole), log_(log) {
    constexpr double near = sizeof(A) == 8 ? 0x1p59 : 0x1p30;
    rounds_ = is_public && !(near > whole.max && whole.max > -near);
    if (whole.is_ordinary() && whole.sum == whole.sum) {
      const double sum = whole.sum + whole.lost;
      sum_ = log ? std::log(sum) : sum;
    } else {
      constexpr double infinity = std::numeric_limits<double>::infinity();
      is_constant_ = true;
      sum_ = !whole.is_empty() || policy == empty_row::nan
                 ? std::numeric_limits<double>::quiet_NaN()
             : log ? -infinity
                   : 0;
    }
  }

  KOKKOS_FUNCTION A operator()(const state& element) const {
    if (is_constant_) {
      return static_cast<A>(sum_);
    }
    const double t =
        rounds_ && static_cast<A>(element.max) == static_cast<A>(whole_.max) ? 0 : below(element);
    if (log_) {
      return static_cast<A>(t > sum_ ? 0 : t - sum_);
    }
    return static_cast<A>(std::exp(t) / sum_);
  }

 private:
  /// How far an element is from the maximum, rounded once.
  KOKKOS_FUNCTION double below(const state& element) const {
    const auto t = core::two_sum<double>::of(element.max, -whole_.max);
    if (!(t.value > -std::numeric_limits<double>::infinity())) {
      return t.value;
    }
    return t.value + (t.lost + (element.low - whole_.low));
  }

  state whole_;
  bool log_;
  bool rounds_;
  bool is_constant_ = false;
  double sum_;  ///< or its logarithm, or the constant
};

/// What is wanted of rows; null data is not.
template <class T>
struct fold_rows {
  using A = arithmetic_t<T>;
  static constexpr int shared_bytes = 0;

  row_source<T> source;
  const max_sum<A>* whole = nullptr;  ///< of the rows that these are parts of; null: they are whole
  matrix_ref y = {};
  empty_row policy = empty_row::nan;
  bool log = false;
  matrix_ref lse = {};  ///< [rows, 1]
  max_sum<A>* partials = nullptr;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t r) const {
    const auto state =
        whole == nullptr ? source.fold(lanes, r) : row_source<T>::state::of(whole[r]);
    if (lanes.lane() == 0 && partials != nullptr) {
      partials[r] = state.partial();
    }
    if (lanes.lane() == 0 && lse.data != nullptr) {
      core::write_real(lse.data, lse.type, r * lse.stride, state.logsumexp());
    }
    const softmax_of<A> value(state, policy, log, whole != nullptr);
    lanes.each(y.cols, [&](std::int64_t i) {
      core::write_real(y.data, y.type, r * y.stride + i, value(source.at(r, i)));
    });
  }
};

template <class Monoid>
struct combine_states {
  using state = typename Monoid::value_type;
  core::combine_problem p;
  KOKKOS_FUNCTION void operator()(std::int64_t r) const {
    auto& into = static_cast<state*>(p.partials.data)[r];
    into = Monoid::combine(into, static_cast<const state*>(p.more.data)[r]);
  }
};

template <class A>
struct logsumexp_of_states {
  core::state_problem p;
  KOKKOS_FUNCTION void operator()(std::int64_t r) const {
    static_cast<A*>(p.lse.data)[r] =
        core::scan_state<A>::of(static_cast<const max_sum<A>*>(p.partials.data)[r]).logsumexp();
  }
};

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
