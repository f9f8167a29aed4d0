// SPDX-License-Identifier: Apache-2.0
/// \file
/// Constants of the exponential that the host backends share: exp(x) = 2^n (1 + t + t^2 q(t))
/// with n = round(x log2 e) and t = x - n ln 2 in two steps (Cody and Waite). q is the minimax
/// polynomial of the relative error on |t| <= 1.0005 ln(2) / 2, found by the Remez exchange.
#pragma once

#include <cstdint>

namespace softfold::core {

template <class T>
struct exponential;

template <>
struct exponential<float> {
  using bits = std::uint32_t;
  static constexpr float log2_e = 0x1.715476p+0F;
  static constexpr float ln2_high = 0x1.62e4p-1F;  ///< 14 bits: n * ln2_high is exact for |n| < 512
  static constexpr float ln2_low = 0x1.7f7d1cp-20F;
  /// q from its highest coefficient down; the polynomial's relative error is 3.7e-9.
  static constexpr float q[] = {0x1.6a23eep-10F, 0x1.123a20p-7F, 0x1.5558f2p-5F, 0x1.555492p-3F,
                                0x1.fffffcp-2F};
  /// Adding it rounds a float to an integer, which then stands in its low bits.
  static constexpr float round_magic = 0x1.8p23F;
  static constexpr int exponent_bias = 127;
};

template <>
struct exponential<double> {
  using bits = std::uint64_t;
  static constexpr double log2_e = 0x1.71547652b82fep+0;
  static constexpr double ln2_high = 0x1.62e42fefap-1;
  static constexpr double ln2_low = 0x1.cf79abc9e3b3ap-40;
  /// Relative error 1.2e-17.
  static constexpr double q[] = {
      0x1.ad7f3ee5d2f80p-26, 0x1.28ad9b8648615p-22, 0x1.71df25b30d420p-19, 0x1.a01999e26209fp-16,
      0x1.a01a012a0f35cp-13, 0x1.6c16c18438b11p-10, 0x1.1111111127d0ep-7,  0x1.555555555083ep-5,
      0x1.55555555554f9p-3,  0x1.000000000000ap-1};
  static constexpr double round_magic = 0x1.8p52;
  static constexpr int exponent_bias = 1023;
};

/// The same with n a multiple of 1/size: 2^(n - floor n) comes from a table, and a polynomial of
/// lower degree is enough, exp(t) = 1 + t (1 + t c(t)). Fewer multiplications where a register
/// holds the table. Largest error over every float in [-87, 0], as measured by
/// tests/cpu/exponentials.cpp: 1.00 ULP for 16 entries, 0.91 for 8.
template <int size>
struct exponential_table;

template <>
struct exponential_table<16> {
  static constexpr float c[] = {0x1.55559ap-3F, 0x1.00021ep-1F};  ///< highest first
  static constexpr float powers[] = {
      0x1.000000p+0F, 0x1.0b5586p+0F, 0x1.172b84p+0F, 0x1.2387a6p+0F,
      0x1.306fe0p+0F, 0x1.3dea64p+0F, 0x1.4bfdaep+0F, 0x1.5ab07ep+0F,
      0x1.6a09e6p+0F, 0x1.7a1148p+0F, 0x1.8ace54p+0F, 0x1.9c4918p+0F,
      0x1.ae89fap+0F, 0x1.c199bep+0F, 0x1.d5818ep+0F, 0x1.ea4afap+0F};
};

template <>
struct exponential_table<8> {
  static constexpr float c[] = {0x1.55484p-5F, 0x1.555c78p-3F, 0x1.0p-1F};
  static constexpr float powers[] = {0x1.000000p+0F, 0x1.172b84p+0F, 0x1.306fe0p+0F,
                                     0x1.4bfdaep+0F, 0x1.6a09e6p+0F, 0x1.8ace54p+0F,
                                     0x1.ae89fap+0F, 0x1.d5818ep+0F};
};

/// The bits of the powers, less their place in the table where exponential arithmetic will add it:
/// entry k's own index, shifted to the top of the mantissa.
template <int size>
struct table_bits {
  alignas(64) std::uint32_t bits[static_cast<unsigned>(size)];
};
template <int size>
constexpr table_bits<size> exponential_table_bits() {
  table_bits<size> result{};
  for (int k = 0; k < size; ++k) {
    result.bits[k] = __builtin_bit_cast(std::uint32_t, exponential_table<size>::powers[k]) -
                     static_cast<std::uint32_t>(k) * ((1U << 23) / size);
  }
  return result;
}

/// 1 + t + t^2 q(t). V is a scalar or a vector of T with + and * and a function fma(a, b, c) =
/// a * b + c found by argument-dependent lookup; V(T) broadcasts. Whether fma rounds once decides
/// how the last steps lose least.
template <class T, bool fma_rounds_once, class V>
inline __attribute__((always_inline)) V exponential_polynomial(V t) {
  using constants = exponential<T>;
  constexpr int terms = static_cast<int>(sizeof(constants::q) / sizeof(T));
  V q = V(constants::q[0]);
#ifndef __CUDACC__  // nvcc does not know it
#pragma GCC unroll 16
#endif
  for (int i = 1; i < terms; ++i) {
    q = fma(q, t, V(constants::q[i]));
  }
  if constexpr (fma_rounds_once) {
    return fma(fma(q, t, V(T{1})), t, V(T{1}));
  } else {
    return (t * t * q + t) + V(T{1});
  }
}

}  // namespace softfold::core
