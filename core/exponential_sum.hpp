// SPDX-License-Identifier: Apache-2.0
/// \file
/// exponential_sum's monoid: each term is cut into the digits of a number to the base 2^32, digits
/// of one place add up, and places that the largest term leaves behind are dropped. So neither the
/// order nor the grouping of additions shows.
#pragma once

#include <core/sampling.hpp>

#include <softfold/config.hpp>
#include <softfold/sample_state.hpp>

#include <cstdint>

namespace softfold::core::sampling {

/// exp(z) = 2^(32 top + shift) exp(rest).
struct term_exponent {
  std::int64_t top;
  int shift;  ///< 0 to 31
  double rest;
};

/// Tops from here on, of either sign, are those of a single z each.
inline constexpr std::int64_t huge_top = std::int64_t{1} << 46;

/// Of a finite z. From 2^50 on, where a logit's last place is 1/4 and more, only equal ones add up.
SOFTFOLD_HD SOFTFOLD_INLINE term_exponent exponent_of(double z) {
  constexpr std::uint64_t huge_bits = 0x4310000000000000U;  // those of 2^50
  const std::uint64_t bits = __builtin_bit_cast(std::uint64_t, z) & ~(std::uint64_t{1} << 63);
  if (bits >= huge_bits) {
    const std::int64_t top = huge_top + static_cast<std::int64_t>(bits - huge_bits);
    return {z > 0 ? top : -top, 0, 0.0};
  }
  const reduced_logit r = reduced(z);
  const auto n = static_cast<std::int64_t>(r.n);
  return {n >> 5, static_cast<int>(n & 31), r.rest};
}

/// How many places a top is above another; 3 where nothing of the lower one counts.
SOFTFOLD_HD SOFTFOLD_INLINE int places_between(std::int64_t high, std::int64_t low) {
  // As unsigned numbers differences do not overflow.
  const std::uint64_t places = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  const bool is_far = places > 2 || high >= huge_top || low <= -huge_top;
  return places == 0 ? 0 : is_far ? 3 : static_cast<int>(places);
}

/// The sum's words become those of a top that is not lower.
SOFTFOLD_HD SOFTFOLD_INLINE void raise_top(exponential_sum& sum, std::int64_t top) {
  const int up = places_between(top, sum.top);
  const std::uint64_t first = sum.words[0];
  const std::uint64_t second = sum.words[1];
  if (up != 0) {
    sum.words[0] = 0;
    sum.words[1] = up == 1 ? first : 0;
    sum.words[2] = up == 1 ? second : up == 2 ? first : 0;
    sum.top = top;
  }
}

/// Adds exp(z) of a finite z.
SOFTFOLD_HD SOFTFOLD_INLINE void add_term(exponential_sum& sum, double z) {
  const term_exponent e = exponent_of(z);
  if (e.top > sum.top) {
    raise_top(sum, e.top);
  }
  const int down = places_between(sum.top, e.top);
  if (down > 2) {
    return;
  }
  // 2^shift exp(rest) in units of 2^-64, exact: the factor is in (1/2, 2).
  const auto factor = static_cast<std::uint64_t>(product(exponential_of_rest(e.rest), 0x1p53));
  const std::uint64_t high = factor >> (53 - e.shift);
  const std::uint64_t low = factor << (11 + e.shift);
  const std::uint64_t middle = low >> 32;
  sum.words[0] += down == 0 ? high : 0;
  sum.words[1] += down == 0 ? middle : down == 1 ? high : 0;
  sum.words[2] += down == 0 ? low & 0xffffffffU : down == 1 ? middle : high;
}

SOFTFOLD_HD SOFTFOLD_INLINE void add_sum(exponential_sum& sum, exponential_sum more) {
  if (more.top > sum.top) {
    raise_top(sum, more.top);
  } else {
    raise_top(more, sum.top);
  }
  sum.words[0] += more.words[0];
  sum.words[1] += more.words[1];
  sum.words[2] += more.words[2];
}

/// The sum divided by exp of its largest term, as a power of two and the rest of a logarithm:
/// factor exp(-rest).
struct relative_sum {
  double factor;
  double rest;

  SOFTFOLD_HD double log() const { return natural_log(factor) - rest; }
  SOFTFOLD_HD double value() const { return factor / exponential_of_rest(rest); }
};

/// Of a sum with at least one term, the largest of which is exp(largest).
SOFTFOLD_HD inline relative_sum relative_to(const exponential_sum& sum, double largest) {
  const term_exponent e = exponent_of(largest);
  const double value = fused(static_cast<double>(sum.words[1]), 0x1p-32,
                             product(static_cast<double>(sum.words[2]), 0x1p-64)) +
                       static_cast<double>(sum.words[0]);
  const auto power = static_cast<std::uint64_t>(1023 - e.shift) << 52;
  return {product(value, __builtin_bit_cast(double, power)), e.rest};
}

}  // namespace softfold::core::sampling
