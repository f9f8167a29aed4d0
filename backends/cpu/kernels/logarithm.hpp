// SPDX-License-Identifier: Apache-2.0
/// \file
/// The logarithm of a sum that is relative to a power of two, without the cancellation of
/// log(sum) + origin ln 2. Plain functions on scalars, safe in every translation unit.
#pragma once

#include "memory_types.hpp"
#include "table.hpp"

#include <core/exponential.hpp>

namespace softfold::cpu_backend {
namespace {

/// sum 2^origin = fraction * exp(log), with fraction in [0.7, 1.42).
struct normalised_sum {
  double fraction;
  split_number log;
};

/// n ln 2 for an integer |n| < 2^14: the high part is exact.
SOFTFOLD_INLINE split_number times_ln2(double n) {
  return {n * core::exponential<double>::ln2_high, n * core::exponential<double>::ln2_low};
}

/// For a normal sum > 0 and an integer origin.
SOFTFOLD_INLINE normalised_sum normalise(double sum, double origin) {
  const auto bits = __builtin_bit_cast(std::uint64_t, sum);
  auto exponent = static_cast<std::int64_t>(bits >> 52) - 1023;
  constexpr std::uint64_t mantissa = (std::uint64_t{1} << 52) - 1;
  double fraction =
      __builtin_bit_cast(double, (bits & mantissa) | std::uint64_t{1023} << 52);  // in [1, 2)
  if (fraction > 1.41421356237309505) {
    fraction *= 0.5;
    ++exponent;
  }
  return {fraction, times_ln2(origin + static_cast<double>(exponent))};
}

/// log(sum 2^origin); high + low, added, is the rounded logarithm.
SOFTFOLD_INLINE split_number log_of_scaled(double sum, double origin) {
  const normalised_sum n = normalise(sum, origin);
  return {n.log.high, n.log.low + __builtin_log(n.fraction)};
}

}  // namespace
}  // namespace softfold::cpu_backend
