// SPDX-License-Identifier: Apache-2.0
/// \file
/// c tanh(x / c), the softcap of scores.
#pragma once

#include <core/exponential.hpp>

#include <softfold/config.hpp>

namespace softfold::core {

/// c tanh(x / c), by the same operations on every backend: with e = exp(2 x / c) - 1, tanh is
/// e / (e + 2); exp(t) - 1 by t = n ln 2 + r and Taylor's polynomial of r. Inlined, so that each
/// instruction set's kernels have their own.
template <class A>
SOFTFOLD_HD inline __attribute__((always_inline)) A softcapped(A x, A c) {
  using constants = exponential<A>;
  using bits = typename constants::bits;
  constexpr bool wide = sizeof(A) == 8;
  constexpr int mantissa = wide ? 52 : 23;
  constexpr int terms = wide ? 14 : 8;
  constexpr A most = wide ? 40 : 20;  // tanh of half of it is 1
  const A twice = (x < 0 ? -x : x) / c * A{2};
  const A t = twice < most ? twice : most;
  const A n = (t * constants::log2_e + constants::round_magic) - constants::round_magic;
  const A r = (t - n * constants::ln2_high) - n * constants::ln2_low;
  A p = 0;
  for (int i = terms; i >= 1; --i) {  // sum of r^(i-1) / i!
    p = (p * r + A{1}) * (A{1} / static_cast<A>(i));
  }
  const A power = __builtin_bit_cast(
      A, static_cast<bits>(static_cast<int>(n) + constants::exponent_bias) << mantissa);
  const A e = power * (p * r) + (power - A{1});
  const A y = c * (e / (e + A{2}));
  return x != x ? x : x < 0 ? -y : y;
}

}  // namespace softfold::core
