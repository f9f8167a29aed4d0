// SPDX-License-Identifier: Apache-2.0
/// \file
/// The forms of table.hpp as function objects on vectors: exp(x) is e(x), log(x) is log e(x).
/// Included by one instruction set's translation unit after its vector type.
#pragma once

#include "table.hpp"

#include <core/exponential.hpp>

namespace softfold::cpu_backend {
namespace {

/// exp(t) times the power of two whose biased exponent stands in z's low bits, where z =
/// round(v log2 e) + magic and t = v - (z - magic) ln 2 + v_error.
template <class A, bool has_error>
SOFTFOLD_INLINE vec<A> exponential_of(vec<A> v, vec<A> v_error, vec<A> magic) {
  using constants = core::exponential<A>;
  const vec<A> z = fma(v, vec<A>(constants::log2_e), magic);
  const vec<A> n = z - magic;
  vec<A> t = fma(n, vec<A>(-constants::ln2_high), v);
  t = fma(n, vec<A>(-constants::ln2_low), t);
  if constexpr (has_error) {
    t = t + v_error;
  }
  return core::exponential_polynomial<A>(t) * low_bits_to_exponent(z);
}

/// The smallest v whose exponential is not flushed to zero is just above this one.
template <class A>
constexpr A flush_below(double origin) {
  return static_cast<A>((origin - core::exponential<A>::exponent_bias) * 0.6931471805599453);
}

template <class A>
constexpr A magic_for(double origin) {
  return static_cast<A>(core::exponential<A>::round_magic + core::exponential<A>::exponent_bias -
                        static_cast<A>(origin));
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
  vec<A> scale, a, b, c, g, low, lowest, magic;

  explicit SOFTFOLD_INLINE careful_form(const frame& f, double = 0, double log_low = 0)
      : nothing(f.scale < 0 ? infinity<A> : -infinity<A>),
        scale(static_cast<A>(f.scale)),
        a(static_cast<A>(f.a)),
        b(static_cast<A>(f.b)),
        c(static_cast<A>(f.c)),
        g(static_cast<A>(f.g)),
        low(static_cast<A>(log_low)),
        lowest(flush_below<A>(0)),
        magic(magic_for<A>(0)) {}

  struct scaled_difference {
    vec<A> value, error;
  };
  SOFTFOLD_INLINE scaled_difference difference(vec<A> x) const {
    const vec<A> d = x * a - b;
    const vec<A> product = d * scale;
    return {(product - c) * g, product_error(d, scale, product) * g};
  }
  SOFTFOLD_INLINE vec<A> exp(vec<A> x) const {
    const scaled_difference d = difference(x);
    const vec<A> v = max(lowest, d.value);
    // Where the product is infinite its error is NaN.
    const vec<A> error = vec<A>::select(greater(v, lowest), d.error, vec<A>(A{0}));
    return exponential_of<A, true>(v, error, magic);
  }
  SOFTFOLD_INLINE vec<A> log(vec<A> x) const {
    const scaled_difference d = difference(x);
    const vec<A> error =
        vec<A>::select(greater(d.value, vec<A>(-infinity<A>)), d.error, vec<A>(A{0}));
    return d.value + (error - low);
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
}  // namespace softfold::cpu_backend
