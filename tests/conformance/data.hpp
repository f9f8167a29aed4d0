// SPDX-License-Identifier: Apache-2.0
// Rows to test with. Every row is a function of its distribution, length and seed.
#pragma once

#include "harness.hpp"

#include <core/reference.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

namespace softfold::test {

namespace reference = core::reference;

enum class distribution {
  normal,
  wide_normal,  ///< standard deviation 30
  ascending,    ///< every element a new maximum
  descending,
  all_equal,
  offset_1e4,       ///< normal + 1e4
  offset_1e7,       ///< normal + 1e7: neighbours of float are 1 apart
  mixed_magnitude,  ///< normal, with some of +-1e30
  masked,           ///< two thirds -infinity
  leading_mask,     ///< up to 20000 leading -infinity, then finite
  subnormal,
  huge,        ///< up to the type's greatest, both signs
  few_values,  ///< seven values: many ties
  two_values,
  signed_zeros,     ///< -0, +0 and a few beside them
  zeros_and_least,  ///< -0, and the least of either sign above and below: nothing between them
  edges,            ///< where formats change: zeros, least, greatest, and neighbours one bit apart
};

inline constexpr distribution all_distributions[] = {
    distribution::normal,       distribution::wide_normal,
    distribution::ascending,    distribution::descending,
    distribution::all_equal,    distribution::offset_1e4,
    distribution::offset_1e7,   distribution::mixed_magnitude,
    distribution::masked,       distribution::leading_mask,
    distribution::subnormal,    distribution::huge,
    distribution::few_values,   distribution::two_values,
    distribution::signed_zeros, distribution::zeros_and_least,
    distribution::edges};

inline const char* name_of(distribution d) {
  static constexpr const char* names[] = {
      "normal",     "wide_normal",     "ascending",    "descending",      "all_equal", "offset_1e4",
      "offset_1e7", "mixed_magnitude", "masked",       "leading_mask",    "subnormal", "huge",
      "few_values", "two_values",      "signed_zeros", "zeros_and_least", "edges"};
  return names[static_cast<std::size_t>(d)];
}

/// Limits of a 16-bit type, which has no std::numeric_limits.
template <class T>
struct type_limits {
  static T max() { return std::numeric_limits<T>::max(); }
  static T lowest() { return std::numeric_limits<T>::lowest(); }
  static T min_normal() { return std::numeric_limits<T>::min(); }
  static T denorm_min() { return std::numeric_limits<T>::denorm_min(); }
};
template <>
struct type_limits<half> {
  static half max() { return half::from_bits(0x7bff); }
  static half lowest() { return half::from_bits(0xfbff); }
  static half min_normal() { return half::from_bits(0x0400); }
  static half denorm_min() { return half::from_bits(0x0001); }
};
template <>
struct type_limits<bfloat16> {
  static bfloat16 max() { return bfloat16::from_bits(0x7f7f); }
  static bfloat16 lowest() { return bfloat16::from_bits(0xff7f); }
  static bfloat16 min_normal() { return bfloat16::from_bits(0x0080); }
  static bfloat16 denorm_min() { return bfloat16::from_bits(0x0001); }
};

/// The finite value whose bits are one more or less.
template <class T>
T neighbour(T value, int step) {
  using bits = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;
  return std::bit_cast<T>(static_cast<bits>(std::bit_cast<bits>(value) + static_cast<bits>(step)));
}

template <class T>
inline constexpr reference::arithmetic_t<T> infinity =
    std::numeric_limits<reference::arithmetic_t<T>>::infinity();

template <class T>
T make(double value) {
  return T(static_cast<reference::arithmetic_t<T>>(value));
}

/// The nearest finite T.
template <class T>
T make_finite(double value) {
  const auto limit = static_cast<double>(reference::widen(type_limits<T>::max()));
  return make<T>(std::clamp(value, -limit, limit));
}

template <class T>
void fill(distribution d, std::span<T> row, std::uint64_t seed) {
  std::mt19937_64 generator(seed * 1000003 + row.size());
  std::normal_distribution<float> normal_float(0, 1);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::uniform_int_distribution<int> percent(0, 99);
  const auto normal = [&] { return static_cast<double>(normal_float(generator)); };
  const auto greatest = static_cast<double>(reference::widen(type_limits<T>::max()));
  const auto smallest = static_cast<double>(reference::widen(type_limits<T>::min_normal()));
  const double level = normal();
  const std::size_t n = row.size();
  const auto set = [&](auto&& value) {
    for (std::size_t i = 0; i < n; ++i) {
      row[i] = make_finite<T>(value(i));
    }
  };
  const auto mask = [&](auto&& hidden) {
    set([&](std::size_t) { return normal(); });
    for (std::size_t i = 0; i < n; ++i) {
      if (hidden(i)) {
        row[i] = T(-infinity<T>);
      }
    }
  };
  switch (d) {
    case distribution::normal:
      return set([&](std::size_t) { return normal(); });
    case distribution::wide_normal:
      return set([&](std::size_t) { return 30 * normal(); });
    case distribution::ascending:
    case distribution::descending:
      set([&](std::size_t) { return 4 * normal(); });
      return std::sort(row.begin(), row.end(), [&](T a, T b) {
        const auto x = reference::widen(a);
        const auto y = reference::widen(b);
        return d == distribution::ascending ? x < y : y < x;
      });
    case distribution::all_equal:
      return set([&](std::size_t) { return level; });
    case distribution::offset_1e4:
      return set([&](std::size_t) { return normal() + 1e4; });
    case distribution::offset_1e7:
      return set([&](std::size_t) { return 3 * normal() + 1e7; });
    case distribution::mixed_magnitude:
      return set([&](std::size_t) {
        const double x = normal();
        return percent(generator) < 3 ? x * 1e30 : x;
      });
    case distribution::masked:
      return mask([&](std::size_t i) { return i + 1 < n && percent(generator) < 67; });
    case distribution::leading_mask:
      return mask([&](std::size_t i) { return i < 20000 && i + 1 < n; });
    case distribution::subnormal:
      return set([&](std::size_t) { return uniform(generator) * smallest; });
    case distribution::huge:
      return set([&](std::size_t) { return uniform(generator) * greatest; });
    case distribution::few_values:
      return set([&](std::size_t) { return static_cast<double>(percent(generator) % 7 - 3); });
    case distribution::two_values:
      return set([&](std::size_t) { return percent(generator) < 50 ? level : level + 1; });
    case distribution::signed_zeros:
      return set([&](std::size_t) {
        const int choice = percent(generator);
        return choice < 45 ? -0.0 : choice < 90 ? 0.0 : choice < 95 ? smallest : -smallest;
      });
    case distribution::zeros_and_least: {
      const auto least = static_cast<double>(reference::widen(type_limits<T>::denorm_min()));
      return set([&](std::size_t) {
        const int choice = percent(generator);
        return choice < 80 ? -0.0 : choice < 85 ? 0.0 : choice < 95 ? least : -least;
      });
    }
    case distribution::edges: {
      const T one = make<T>(1);
      const T positive[] = {make<T>(0),
                            type_limits<T>::denorm_min(),
                            neighbour(type_limits<T>::min_normal(), -1),
                            type_limits<T>::min_normal(),
                            neighbour(one, -1),
                            one,
                            neighbour(one, 1),
                            neighbour(type_limits<T>::max(), -1),
                            type_limits<T>::max()};
      for (std::size_t i = 0; i < n; ++i) {
        const T value =
            positive[static_cast<std::size_t>(percent(generator)) % std::size(positive)];
        row[i] = percent(generator) < 50 ? value
                                         : make<T>(-static_cast<double>(reference::widen(value)));
      }
      return;
    }
  }
}

/// NaNs of both signs, quiet and signalling, of several payloads.
template <class T>
std::vector<T> nans() {
  const auto all = [](auto... bits) { return std::vector<T>{std::bit_cast<T>(bits)...}; };
  if constexpr (std::is_same_v<T, half>) {
    return {half::from_bits(0x7e00), half::from_bits(0xfe00), half::from_bits(0x7c01),
            half::from_bits(0xffff)};
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return {bfloat16::from_bits(0x7fc0), bfloat16::from_bits(0xffc0), bfloat16::from_bits(0x7f81),
            bfloat16::from_bits(0xffff)};
  } else if constexpr (std::is_same_v<T, float>) {
    return all(0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xffffffffu);
  } else {
    return all(std::uint64_t{0x7ff8000000000000u}, std::uint64_t{0xfff8000000000000u},
               std::uint64_t{0x7ff0000000000001u}, std::uint64_t{0xffffffffffffffffu});
  }
}

}  // namespace softfold::test
