// SPDX-License-Identifier: Apache-2.0
/// \file
/// A row's state on a device, and the state as a monoid that Kokkos reduces: max_sum_monoid of
/// core/ with a reference that moves seldom and a sum that keeps its rounding errors.
#pragma once

#include <core/monoid.hpp>
#include <core/real_types.hpp>

#include <Kokkos_Core.hpp>

#include <softfold/dtype.hpp>
#include <softfold/max_sum.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

template <class A>
inline constexpr A infinity = std::numeric_limits<A>::infinity();

using core::arithmetic_t;

/// How a row's elements x become z, whose maximum is the softmax's, and how z is scaled:
/// s x = factor z.
template <class A>
struct scaling {
  A factor;  ///< abs(s); 1 if s = 0
  A step;    ///< how far an element may exceed the reference before that moves
  bool unscaled;
  bool negates;  ///< s < 0
  bool uniform;  ///< s = 0: every number counts as 0

  explicit scaling(double s)
      : factor(s == 0 ? A{1} : static_cast<A>(std::fabs(s))),
        step(A{4} / factor),
        unscaled(factor == A{1}),
        negates(s < 0),
        uniform(s == 0) {}

  KOKKOS_FUNCTION A element(A x) const {
    if (uniform) {
      return x == -infinity<A> || x != x ? x : A{0};
    }
    return negates ? -x : x;
  }

  struct difference {
    A value, error;
  };
  /// factor (z - reference), with what the product's rounding lost. Halved on the way, so that the
  /// difference of two huge elements stays finite.
  KOKKOS_FUNCTION difference below(A z, A reference) const {
    if (unscaled) {
      return {z - reference, A{0}};
    }
    const A half = z * A{0.5} - reference * A{0.5};
    const A product = half * factor;
    using std::fma;
    const bool finite = product > -infinity<A> && product < infinity<A>;
    return {product * A{2}, finite ? fma(half, factor, -product) * A{2} : A{0}};
  }
  KOKKOS_FUNCTION A exp_below(A z, A reference) const {
    using std::exp;
    const difference t = below(z, reference);
    const A e = exp(t.value);
    return t.error != A{0} ? e + e * t.error : e;
  }
};

/// The state of some elements: their maximum, and the sum of exp(factor (z - reference)) as
/// sum + lost. NaN among them makes the sum NaN, +infinity makes it +infinity.
template <class A>
struct row_fold {
  A max, reference, sum, lost;

  KOKKOS_FUNCTION A total() const {
    return sum < infinity<A> ? sum + lost : sum;  // infinity has no rounding error
  }
  /// A number to subtract: the reference where it is one.
  KOKKOS_FUNCTION A base() const {
    return reference > -infinity<A> && reference < infinity<A> ? reference : A{0};
  }
  /// Knuth's two-sum.
  KOKKOS_FUNCTION void add(A term) {
    const A next = sum + term;
    const A back = next - sum;
    lost += (sum - (next - back)) + (term - back);
    sum = next;
  }
};

/// row_folds of one scale under combination.
template <class A>
struct fold_monoid {
  using value_type = row_fold<A>;
  scaling<A> scale;

  KOKKOS_FUNCTION static value_type identity() { return {-infinity<A>, -infinity<A>, A{0}, A{0}}; }

  /// Makes the sum relative to another reference.
  KOKKOS_FUNCTION void move_reference(value_type& state, A reference) const {
    if (state.reference != reference) {
      const A ratio = scale.exp_below(state.reference, reference);
      state.sum *= ratio;
      state.lost *= ratio;
      state.reference = reference;
    }
  }

  KOKKOS_FUNCTION value_type combine(const value_type& a, const value_type& b) const {
    const A reference = a.reference < b.reference ? b.reference : a.reference;
    value_type r = a;
    value_type other = b;
    move_reference(r, reference);
    move_reference(other, reference);
    r.max = a.max < b.max ? b.max : a.max;
    r.add(other.sum);
    r.lost += other.lost;
    return r;
  }

  /// Adds the first `used` elements of a tile, whose maximum is looked at once.
  template <std::size_t size>
  KOKKOS_FUNCTION void add_tile(value_type& state, const A (&z)[size], int used) const {
    A largest = -infinity<A>;
    for (int i = 0; i < static_cast<int>(size); ++i) {
      if (i < used) {
        largest = z[i] > largest ? z[i] : largest;
      }
    }
    state.max = largest > state.max ? largest : state.max;
    if (largest > state.reference && !(largest <= state.reference + scale.step)) {
      move_reference(state, largest);
    }
    const A base = state.base();
    for (int i = 0; i < static_cast<int>(size); ++i) {
      if (i < used) {
        state.add(scale.exp_below(z[i], base));
      }
    }
  }

  /// The state with its maximum as reference.
  KOKKOS_FUNCTION value_type finished(const value_type& a) const {
    value_type r = a;
    if (a.max > a.reference) {
      move_reference(r, a.max);
    }
    r.sum = r.total();
    r.lost = A{0};
    return r;
  }
};

static_assert(core::monoid<fold_monoid<float>> && core::monoid<fold_monoid<double>>);

/// The monoid as a Kokkos reducer.
template <class Monoid>
class monoid_reducer {
 public:
  using reducer = monoid_reducer;
  using value_type = typename Monoid::value_type;
  using result_view_type = Kokkos::View<value_type, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;

  KOKKOS_FUNCTION monoid_reducer(const Monoid& monoid, value_type& result)
      : monoid_(monoid), result_(&result) {}

  KOKKOS_FUNCTION void init(value_type& value) const { value = monoid_.identity(); }
  KOKKOS_FUNCTION void join(value_type& into, const value_type& other) const {
    into = monoid_.combine(into, other);
  }
  KOKKOS_FUNCTION value_type& reference() const { return *result_; }
  KOKKOS_FUNCTION result_view_type view() const { return result_view_type(result_); }
  KOKKOS_FUNCTION bool references_scalar() const { return true; }

 private:
  Monoid monoid_;
  value_type* result_;
};

/// What a finished state says about its scaled row.
enum class row_kind : std::uint8_t { ordinary, empty, infinite, nan };

template <class A>
KOKKOS_FUNCTION row_kind kind_of(const scaling<A>& scale, const row_fold<A>& state) {
  const A max = scale.factor * state.max;
  return !(state.sum == state.sum) ? row_kind::nan
         : max == infinity<A>      ? row_kind::infinite
         : !(max > -infinity<A>)   ? row_kind::empty
                                   : row_kind::ordinary;
}

template <class T>
KOKKOS_FUNCTION arithmetic_t<T> widen(T x) {
  return static_cast<arithmetic_t<T>>(x);
}
template <class Out, class A>
KOKKOS_FUNCTION Out narrow(A x) {
  return static_cast<Out>(x);
}

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
