// SPDX-License-Identifier: Apache-2.0
/// \file
/// The forms of table.hpp as function objects on vectors: exp(x) is e(x), log(x) is log e(x).
/// Included by one instruction set's translation unit after its vector type.
#pragma once

#include <backends/host/kernels/table.hpp>

#include <core/exponential.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// exp(v + v_error) 2^-origin, given magic_for(origin). v is at least flush_below(origin), which
/// gives exactly 0. NaN gives NaN.
///
/// z = v log2 e + magic is rounded to a multiple of 1 (or of 1/size with a table of that size),
/// which then stands in its low bits; n = z - magic is that multiple, t = v - n ln 2.
template <class A, bool has_error>
SOFTFOLD_INLINE vec<A> exponential_of(vec<A> v, vec<A> v_error, vec<A> magic) {
  using V = vec<A>;
  using constants = core::exponential<A>;
  const V z = fma(v, V(constants::log2_e), magic);
  const V n = z - magic;
  V t = fma(n, V(-constants::ln2_high), v);
  t = fma(n, V(-constants::ln2_low), t);
  if constexpr (has_error) {
    t = t + v_error;
  }
  if constexpr (V::table_size == 0) {
    return core::exponential_polynomial<A, V::fma_rounds_once>(t) * low_bits_to_exponent(z);
  } else {
    using table = core::exponential_table<V::table_size>;
    V c(table::c[0]);
#pragma GCC unroll 4
    for (int i = 1; i < static_cast<int>(sizeof(table::c) / sizeof(float)); ++i) {
      c = fma(c, t, V(table::c[i]));
    }
    c = fma(c, t, V(A{1}));
    const V power = table_power(z);
    return fma(power * t, c, power);
  }
}

/// The largest v whose exponential is 0.
template <class A>
constexpr A flush_below(double origin) {
  return static_cast<A>((origin - core::exponential<A>::exponent_bias) * 0.6931471805599453);
}

/// What exponential_of adds to round: moved so that n - origin, biased as the bits of an
/// exponent are, stands in the low bits. The table's entries have their own bias.
template <class A>
constexpr A magic_for(double origin) {
  using constants = core::exponential<A>;
  if constexpr (vec<A>::table_size == 0) {
    return static_cast<A>(constants::round_magic + constants::exponent_bias -
                          static_cast<A>(origin));
  } else {
    return static_cast<A>(constants::round_magic / vec<A>::table_size - static_cast<A>(origin));
  }
}

template <class A, bool scaled>
struct power_form {
  static constexpr A nothing = -infinity<A>;  ///< an x with e(x) = 0
  vec<A> scale, lowest, magic, high, low;

  explicit SOFTFOLD_INLINE power_form(const frame& f, double log_high = 0, double log_low = 0)
      : scale(static_cast<A>(f.scale)),
        lowest(scaled ? flush_below<A>(f.origin) / static_cast<A>(f.scale)
                      : flush_below<A>(f.origin)),
        magic(magic_for<A>(f.origin)),
        high(static_cast<A>(log_high)),
        low(static_cast<A>(log_low)) {}

  // The order of max's operands keeps a NaN.
  SOFTFOLD_INLINE vec<A> exp(vec<A> x) const {
    x = max(lowest, x);
    if constexpr (scaled) {
      const vec<A> v = x * scale;
      return exponential_of<A, true>(v, product_error(x, scale, v), magic);
    } else {
      return exponential_of<A, false>(x, x, magic);
    }
  }

  SOFTFOLD_INLINE vec<A> log(vec<A> x) const {
    if constexpr (scaled) {
      const vec<A> v = x * scale;
      const vec<A> error = vec<A>::select(greater(v, vec<A>(-infinity<A>)),
                                          product_error(x, scale, v), vec<A>(A{0}));
      return (v - high) + (error - low);
    } else {
      return (x - high) - low;
    }
  }
};

template <class A>
struct careful_form {
  A nothing;
  vec<A> scale, a, b, c, g, carry, low, lowest, magic;

  explicit SOFTFOLD_INLINE careful_form(const frame& f, double = 0, double log_low = 0)
      : nothing(f.scale < 0 ? infinity<A> : -infinity<A>),
        scale(static_cast<A>(f.scale)),
        a(static_cast<A>(f.a)),
        b(static_cast<A>(f.b)),
        c(static_cast<A>(f.c)),
        g(static_cast<A>(f.g)),
        carry(f.exact ? A{1} : A{0}),
        low(static_cast<A>(log_low)),
        lowest(flush_below<A>(careful_origin)),
        magic(magic_for<A>(careful_origin)) {}

  struct scaled_difference {
    vec<A> value, error;
  };
  SOFTFOLD_INLINE scaled_difference difference(vec<A> x) const {
    const vec<A> d = x * a - b;
    const vec<A> product = d * scale;
    const vec<A> rough = product - c;
    // Far from zero the product's rounding error is no small number; here it becomes one. That
    // of an infinite product is none.
    const vec<A> error = vec<A>::select(greater(product, vec<A>(-infinity<A>)),
                                        product_error(d, scale, product) * carry, vec<A>(A{0}));
    const vec<A> value = rough + error;
    return {value * g, (error - (value - rough)) * g};
  }
  SOFTFOLD_INLINE vec<A> exp(vec<A> x) const {
    const scaled_difference d = difference(x);
    const vec<A> v = max(lowest, d.value);
    const vec<A> error = vec<A>::select(greater(v, lowest), d.error, vec<A>(A{0}));
    return exponential_of<A, true>(v, error, magic);
  }
  SOFTFOLD_INLINE vec<A> log(vec<A> x) const {
    const scaled_difference d = difference(x);
    const vec<A> none(-infinity<A>);
    const vec<A> log = vec<A>::select(greater(d.value, none), d.value + (d.error - low), none);
    // An element that scales to -infinity is one, though its difference may be a number.
    return vec<A>::select(equal(x * scale, none), none, log);
  }
};

template <class A>
struct uniform_form {
  static constexpr A nothing = -infinity<A>;
  vec<A> low;

  explicit SOFTFOLD_INLINE uniform_form(const frame&, double = 0, double log_low = 0)
      : low(static_cast<A>(log_low)) {}

  SOFTFOLD_INLINE vec<A> exp(vec<A> x) const {
    return vec<A>::select(equal(x, vec<A>(-infinity<A>)), vec<A>(A{0}), vec<A>(A{1}));
  }
  SOFTFOLD_INLINE vec<A> log(vec<A> x) const {
    return vec<A>::select(equal(x, vec<A>(-infinity<A>)), x, vec<A>(A{0}) - low);
  }
};

/// Calls body with the function object of a frame.
template <class A, class Body>
SOFTFOLD_INLINE void with_form(const frame& f, double log_high, double log_low, Body&& body) {
  switch (f.how) {
    case form::power:
      if (f.scale == 1) {
        body(power_form<A, false>(f, log_high, log_low));
      } else {
        body(power_form<A, true>(f, log_high, log_low));
      }
      return;
    case form::careful:
      body(careful_form<A>(f, log_high, log_low));
      return;
    case form::uniform:
      body(uniform_form<A>(f, log_high, log_low));
      return;
  }
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
