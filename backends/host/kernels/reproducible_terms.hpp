// SPDX-License-Identifier: Apache-2.0
/// \file
/// Terms of core/reproducible.hpp by vectors: exponentials relative to an anchor, a power of two.
#pragma once

#include <backends/host/kernels/elements.hpp>

#include <core/exponential.hpp>
#include <core/reproducible.hpp>

#include <cstdint>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

namespace definition = core::reproducible;

/// The biased exponent of a held term at the anchor's place. What is as many powers below it is of
/// no account: each of three levels of additions loses as many powers as a fraction has, below the
/// lowest word's unit.
template <class A>
inline constexpr int held_exponent = definition::bias_of<A> + definition::format<A>::raised;

inline constexpr double ln2_of_limits = 0.6931471805599453;
/// No packet of terms up to this power reaches the place above the anchor's.
inline constexpr double highest_power = 28.4;

/// The highest element that has room at an anchor.
template <class A, bool scaled>
SOFTFOLD_INLINE A highest_element(std::int32_t anchor, A scale) {
  const double z = (32.0 * anchor + highest_power) * ln2_of_limits;
  return static_cast<A>(scaled ? z / static_cast<double>(scale) : z);
}

template <class A>
struct float_words {
  typedef typename definition::format<A>::bits type __attribute__((vector_size(sizeof(vec<A>))));
};

/// 2^n for the n whose biased exponent stands in the low bits.
template <class A>
SOFTFOLD_INLINE vec<A> power_of_low_bits(vec<A> shifted) {
  using words = typename float_words<A>::type;
  vec<A> r;
  r.v = reinterpret_cast<decltype(r.v)>(reinterpret_cast<words>(shifted.v)
                                        << definition::format<A>::digits);
  return r;
}

/// The polynomial of a term, from its highest coefficient down.
template <class A>
struct term_polynomial;
template <>
struct term_polynomial<float> : definition::format<float> {};
template <>
struct term_polynomial<double> {
  using constants = core::exponential<double>;
  static constexpr double q[] = {constants::q[0],
                                 constants::q[1],
                                 constants::q[2],
                                 constants::q[3],
                                 constants::q[4],
                                 constants::q[5],
                                 constants::q[6],
                                 constants::q[7],
                                 constants::q[8],
                                 constants::q[9],
                                 1.0,
                                 1.0};
};

/// exp(r) of `count` vectors, step by step of all: so many chains at once are as many as the
/// processor has the latency for, and more than it finds by itself.
template <unsigned count, class A>
SOFTFOLD_INLINE void exponentials_of_rests(const vec<A> (&r)[count], vec<A> (&p)[count]) {
  using V = vec<A>;
  constexpr auto& q = term_polynomial<A>::q;
#pragma GCC unroll 8
  for (V& one : p) {
    one = V(q[0]);
  }
#pragma GCC unroll 16
  for (int i = 1; i < static_cast<int>(sizeof(q) / sizeof(A)); ++i) {
#pragma GCC unroll 8
    for (unsigned k = 0; k < count; ++k) {
      p[k] = fused(p[k], r[k], V(q[i]));
    }
  }
}
template <class A>
SOFTFOLD_INLINE vec<A> exponential_of_rest(vec<A> r) {
  const vec<A> rests[1] = {r};
  vec<A> p[1];
  exponentials_of_rests(rests, p);
  return p[0];
}

/// p 2^n of each element: n is less `base`. `raised` is the biased exponent of n = 0, and what is
/// as many powers below is 0.
template <class A, bool scaled>
struct reproducible_terms {
  using V = vec<A>;
  V scale, lowest, magic;

  SOFTFOLD_INLINE reproducible_terms(A s, double base, int raised)
      : scale(s), lowest(A{0}), magic(A{0}) {
    const double least = (base - raised) * ln2_of_limits;
    lowest = V(static_cast<A>(scaled ? least / static_cast<double>(s) : least));
    magic = V(static_cast<A>(static_cast<double>(definition::format<A>::magic) + raised - base));
  }

  /// The order of max's operands keeps a NaN.
  SOFTFOLD_INLINE V clamped(V x) const { return max(lowest, x); }

  /// Clamped ones become terms.
  template <unsigned count>
  SOFTFOLD_INLINE void replace(V (&x)[count]) const {
    using constants = core::exponential<A>;
    V z[count], shifted[count], rest[count], p[count];
#pragma GCC unroll 8
    for (unsigned k = 0; k < count; ++k) {
      z[k] = scaled ? x[k] * scale : x[k];
    }
#pragma GCC unroll 8
    for (unsigned k = 0; k < count; ++k) {
      shifted[k] = fused(z[k], V(definition::format<A>::log2_e), magic);
    }
#pragma GCC unroll 8
    for (unsigned k = 0; k < count; ++k) {
      const V n = shifted[k] - magic;
      if constexpr (sizeof(A) == 4) {
        rest[k] = fused(n, V(-definition::format<A>::ln2), z[k]);
      } else {
        rest[k] = fused(n, V(-constants::ln2_high), z[k]);
        rest[k] = fused(n, V(-constants::ln2_low), rest[k]);
      }
      if constexpr (scaled) {
        rest[k] = rest[k] + product_error(x[k], scale, z[k]);
      }
    }
    exponentials_of_rests(rest, p);
#pragma GCC unroll 8
    for (unsigned k = 0; k < count; ++k) {
      x[k] = p[k] * power_of_low_bits(shifted[k]);
    }
  }
  SOFTFOLD_INLINE V operator()(V x) const {
    V one[1] = {x};
    replace(one);
    return one[0];
  }
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
