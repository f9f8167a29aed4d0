// SPDX-License-Identifier: Apache-2.0
/// \file
/// exp(scale d) of differences d <= 0 from a row's largest product, in the fewest instructions
/// whose error a sum of f32 bears: the scale is in the constants, ln 2 is taken off in one step,
/// and of a table of 32 powers what is left needs two coefficients. 1 for 0.
#pragma once

#include <backends/host/kernels/memory_types.hpp>

#include <core/exponential.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

inline constexpr float powers_of_32nds[] = {
    0x1.000000p+0F, 0x1.059b0ep+0F, 0x1.0b5586p+0F, 0x1.11301ep+0F, 0x1.172b84p+0F, 0x1.1d4874p+0F,
    0x1.2387a6p+0F, 0x1.29e9e0p+0F, 0x1.306fe0p+0F, 0x1.371a74p+0F, 0x1.3dea64p+0F, 0x1.44e086p+0F,
    0x1.4bfdaep+0F, 0x1.5342b6p+0F, 0x1.5ab07ep+0F, 0x1.6247ecp+0F, 0x1.6a09e6p+0F, 0x1.71f75ep+0F,
    0x1.7a1148p+0F, 0x1.82589ap+0F, 0x1.8ace54p+0F, 0x1.93737cp+0F, 0x1.9c4918p+0F, 0x1.a5503cp+0F,
    0x1.ae89fap+0F, 0x1.b7f770p+0F, 0x1.c199bep+0F, 0x1.cb720ep+0F, 0x1.d5818ep+0F, 0x1.dfc974p+0F,
    0x1.ea4afap+0F, 0x1.f50766p+0F};

/// Their bits, less their place in the table, which the multiple's low bits add.
inline constexpr auto powers_of_32nds_bits = [] {
  core::table_bits<32> table{};
  for (int k = 0; k < 32; ++k) {
    table.bits[k] = __builtin_bit_cast(std::uint32_t, powers_of_32nds[k]) -
                    static_cast<std::uint32_t>(k) * (1U << 18);
  }
  return table;
}();

/// V has a function power_of_32nds(z): 2^(n / 32) for the n that stands in z's low bits, from -127
/// 32, whose power is 0, on.
template <class V>
class difference_exponential {
 public:
  /// Of scales whose constants are in range.
  static constexpr bool takes(double scale) { return scale >= 0x1p-40 && scale <= 0x1p40; }

  explicit SOFTFOLD_INLINE difference_exponential(double scale)
      : per_unit_(static_cast<float>(scale * 1.4426950408889634)),
        unit_(static_cast<float>(-0.6931471805599453 / scale)),
        lowest_(static_cast<float>(-127 * 0.6931471805599453 / scale)),
        linear_(static_cast<float>(scale * (1 + most_left * most_left / 8))),
        square_(static_cast<float>(scale * scale / 2)) {}

  /// NaN for NaN.
  SOFTFOLD_INLINE V operator()(V d) const {
    const V magic(0x1.8p23F / 32);
    d = max(lowest_, d);
    const V z = fma(d, per_unit_, magic);
    const V t = fma(z - magic, unit_, d);
    return power_of_32nds(z) * fma(fma(square_, t, linear_), t, V(1.0F));
  }

 private:
  /// t scale is at most this; exp(x) = 1 + x (1 + x / 2 + x^2 / 6), and of x^2 / 6 this much is the
  /// constant that leaves the smallest error, most_left^3 / 24, 0.9 2^-24.
  static constexpr double most_left = 0.6931471805599453 / 64;

  V per_unit_, unit_, lowest_, linear_, square_;
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
