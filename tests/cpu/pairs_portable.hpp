// SPDX-License-Identifier: Apache-2.0
/// \file
/// pairs_avx512.hpp's vectors of pairs on the portable vectors.
#pragma once

#include <backends/host/kernels/vec_portable.hpp>

#include <backends/host/kernels/difference_exponential.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

struct pairs {
  using V = vec<float>;
  using lane_bits = lane_types<float>::bits;
  static constexpr int elements = 2 * V::lanes;
  lane_bits v;

  static pairs load(const std::uint32_t* p) {
    pairs x;
    __builtin_memcpy(&x.v, p, sizeof x.v);
    return x;
  }
  static pairs load(const bf16_bits* p, int n) {
    pairs x = all(0);
    for (int i = 0; i < n && i < elements; ++i) {
      x.v[i / 2] |= std::uint32_t{p[i].bits} << (i % 2 * 16);
    }
    return x;
  }
  static pairs load(const bf16_bits* first, const bf16_bits* second, int n) {
    pairs x = all(0);
    for (int i = 0; i < n && i < V::lanes; ++i) {
      x.v[i] = first[i].bits | (second == nullptr ? 0U : std::uint32_t{second[i].bits} << 16);
    }
    return x;
  }
  static pairs all(std::uint32_t pair) { return {lane_bits{} + pair}; }
  static pairs of_bits(V x) { return {__builtin_bit_cast(lane_bits, x.v)}; }
  static pairs rounded(V low, V high) {
    bf16_bits both[elements];
    low.store(both);
    high.store(both + V::lanes);
    return load(both, elements);
  }
  void store(std::uint32_t* p) const { __builtin_memcpy(p, &v, sizeof v); }

  [[nodiscard]] V bits() const { return __builtin_bit_cast(V::native, v); }
  [[nodiscard]] V first() const { return pairs{v << 16}.bits(); }
  [[nodiscard]] V second() const { return pairs{v & 0xffff0000U}.bits(); }
  [[nodiscard]] std::uint32_t subnormal() const {
    return of_elements([](std::uint32_t m) { return m != 0 && m < 0x0080U; });
  }
  [[nodiscard]] std::uint32_t extreme() const {
    return of_elements([](std::uint32_t m) { return m != 0 && (m < 63U << 7 || m >= 0x7f80U); });
  }
  [[nodiscard]] pairs without(std::uint32_t these) const {
    pairs x = *this;
    for (int i = 0; i < elements; ++i) {
      if ((these >> i & 1U) != 0) {
        x.v[i / 2] &= i % 2 == 0 ? 0xffff0000U : 0xffffU;
      }
    }
    return x;
  }
  static V::mask lanes_of(std::uint32_t these) {
    V::mask lanes;
    for (int i = 0; i < V::lanes; ++i) {
      lanes[i] = (these >> (2 * i) & 3U) != 0 ? -1 : 0;
    }
    return lanes;
  }

 private:
  /// The bits of elements whose magnitudes' bits satisfy it.
  template <class Condition>
  [[nodiscard]] std::uint32_t of_elements(const Condition& condition) const {
    std::uint32_t these = 0;
    for (int i = 0; i < elements; ++i) {
      if (condition(v[i / 2] >> (i % 2 * 16) & 0x7fffU)) {
        these |= 1U << i;
      }
    }
    return these;
  }
};

inline vec<float> power_of_32nds(vec<float> z) {
  const auto n = __builtin_bit_cast(lane_types<float>::bits, z.v);
  lane_types<float>::bits power;
  for (int i = 0; i < vec<float>::lanes; ++i) {
    power[i] = powers_of_32nds_bits.bits[n[i] % 32] + (n[i] << 18);
  }
  return __builtin_bit_cast(vec<float>::native, power);
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
