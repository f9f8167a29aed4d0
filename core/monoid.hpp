// SPDX-License-Identifier: Apache-2.0
/// \file
/// The algebra: what a monoid is here, and the softmax monoid.
#pragma once

#include <softfold/config.hpp>
#include <softfold/max_sum.hpp>

#include <cmath>
#include <concepts>
#include <limits>

namespace softfold::core {

/// A commutative monoid as an object, which may hold what its states depend on, such as a scale:
/// identity() is the state of no elements, combine(a, b) that of the union of disjoint parts.
/// combine is associative and commutative up to rounding.
template <class M>
concept monoid = requires(const M& m, const typename M::value_type& a) {
  { m.identity() } -> std::same_as<typename M::value_type>;
  { m.combine(a, a) } -> std::same_as<typename M::value_type>;
};

/// (m, d) of Milakov and Gimelshein: running maximum, sum of exp(x - m).
template <class T>
struct max_sum_monoid {
  using value_type = max_sum<T>;

  SOFTFOLD_HD static constexpr value_type identity() {
    return {-std::numeric_limits<T>::infinity(), T{0}};
  }

  /// The state of one element. -infinity contributes nothing.
  SOFTFOLD_HD static constexpr value_type lift(T x) {
    return {x, x == -std::numeric_limits<T>::infinity() ? T{0} : T{1}};
  }

  /// A side at the maximum is not scaled, so infinity - infinity is never evaluated: the
  /// identity is neutral, and states with +infinity combine to +infinity, not NaN.
  SOFTFOLD_HD static value_type combine(value_type a, value_type b) {
    const T max = maximum(a.max, b.max);
    return {max, scaled(a, max) + scaled(b, max)};
  }

  /// m + log d; -infinity for the identity.
  SOFTFOLD_HD static T logsumexp(value_type a) {
    using std::log;
    return a.max + log(a.sum);
  }

 private:
  SOFTFOLD_HD static constexpr T maximum(T a, T b) {
    return a != a ? a : (b != b ? b : (a < b ? b : a));  // NaN wins
  }
  SOFTFOLD_HD static T scaled(value_type a, T max) {
    using std::exp;
    return a.max == max ? a.sum : a.sum * exp(a.max - max);
  }
};

}  // namespace softfold::core
