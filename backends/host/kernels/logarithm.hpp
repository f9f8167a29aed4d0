// SPDX-License-Identifier: Apache-2.0
/// \file
/// The logarithm of a sum that is relative to a power of two, without the cancellation of
/// log(sum) + origin ln 2. Plain functions on scalars, safe in every translation unit.
#pragma once

#include <backends/host/kernels/memory_types.hpp>
#include <backends/host/kernels/table.hpp>

#include <core/exponential.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// sum 2^origin = fraction * exp(log), with fraction in [0.70, 1.42).
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
  // The exponent of sum / sqrt(1/2), so that the fraction is near 1 on both sides; no branch.
  constexpr std::uint64_t half_root_bits = 0x3fe6a09e667f3bcdU;
  const auto bits = __builtin_bit_cast(std::uint64_t, sum);
  const auto exponent = static_cast<std::int64_t>(bits - half_root_bits) >> 52;
  const auto fraction =
      __builtin_bit_cast(double, bits - (static_cast<std::uint64_t>(exponent) << 52));
  return {fraction, times_ln2(origin + static_cast<double>(exponent))};
}

/// log(sum 2^origin); high + low, added, is the rounded logarithm.
SOFTFOLD_INLINE split_number log_of_scaled(double sum, double origin) {
  const normalised_sum n = normalise(sum, origin);
  return {n.log.high, n.log.low + __builtin_log(n.fraction)};
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
