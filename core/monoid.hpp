// SPDX-License-Identifier: Apache-2.0
/// \file
/// The algebra: what a monoid is here, the softmax monoid, and products of monoids.
#pragma once

#include <softfold/config.hpp>
#include <softfold/max_sum.hpp>

#include <cmath>
#include <concepts>
#include <limits>

namespace softfold::core {

/// A type of stateless functions: identity() is the state of no elements, combine(a, b) the
/// state of the union of disjoint parts. combine is associative and commutative up to rounding.
template <class M>
concept monoid = requires(typename M::value_type a, typename M::value_type b) {
  { M::identity() } -> std::same_as<typename M::value_type>;
  { M::combine(a, b) } -> std::same_as<typename M::value_type>;
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

/// Two monoids side by side, folded in one pass.
template <monoid First, monoid Second>
struct product_monoid {
  struct value_type {
    typename First::value_type first;
    typename Second::value_type second;
  };

  SOFTFOLD_HD static constexpr value_type identity() {
    return {First::identity(), Second::identity()};
  }
  SOFTFOLD_HD static value_type combine(const value_type& a, const value_type& b) {
    return {First::combine(a.first, b.first), Second::combine(a.second, b.second)};
  }
};

}  // namespace softfold::core
