// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the byte formats of states have in common; docs/state_format.md describes them.
#pragma once

#include <core/exact_state.hpp>

#include <softfold/max_sum.hpp>
#include <softfold/row_states.hpp>

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

namespace softfold::core::state_bytes {

// The eighth bit of the first byte, both kinds of line end and an end-of-file character: what
// copying as text would alter.
constexpr unsigned char magic[8] = {0x89, 'S', 'F', 'S', '\r', '\n', 0x1a, '\n'};
constexpr std::size_t checksum_bytes = 4;

template <class T>
using bits_of = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

template <class T>
inline void put(std::byte* to, T value) {
  const auto bits = std::bit_cast<bits_of<T>>(value);
  for (std::size_t i = 0; i < sizeof bits; ++i) {
    to[i] = static_cast<std::byte>(bits >> (8 * i));
  }
}

template <class T>
inline T get(const std::byte* from) {
  bits_of<T> bits = 0;
  for (std::size_t i = 0; i < sizeof bits; ++i) {
    bits |= static_cast<bits_of<T>>(std::to_integer<bits_of<T>>(from[i]) << (8 * i));
  }
  return std::bit_cast<T>(bits);
}

/// All elements of an array of T, from the machine's order of bytes to the format's or back.
template <class T>
inline void put_all(std::byte*& to, const void* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += sizeof(T)) {
    put(to + at, *reinterpret_cast<const T*>(static_cast<const std::byte*>(from) + at));
  }
  to += bytes;
}

template <class T>
inline void get_all(std::vector<std::byte>& to, const std::byte*& from) {
  for (std::size_t at = 0; at < to.size(); at += sizeof(T)) {
    const T value = get<T>(from + at);
    std::memcpy(&to[at], &value, sizeof value);
  }
  from += to.size();
}

inline std::uint32_t checksum(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

/// The first range that is empty, negative, or not after the one before; null if there is none.
inline const column_range* wrong_range(std::span<const column_range> columns) {
  std::int64_t last = -1;  // a first range that starts at 0 follows nothing
  for (const column_range& r : columns) {
    if (r.begin <= last || r.end <= r.begin) {
      return &r;
    }
    last = r.end;
  }
  return nullptr;
}

/// Whether some row of so many columns has that state, with room for rounding.
template <class T>
inline bool can_be_state(const max_sum<T>& s, double columns) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  if (s.max == -infinity) {
    return s.sum == 0;
  }
  if (columns == 0 || s.sum < 0) {
    return false;
  }
  if (std::isnan(s.max) || s.max == infinity) {
    return std::isnan(s.max) || s.sum > 0;
  }
  // The maximum adds 1 and no column more, relative to the rounded maximum: that may be 32 away
  // from the exact one (docs/semantics.md). Twice as much for the rounding of the sum.
  const double unit = std::numeric_limits<T>::epsilon() / 2;
  const double room = 2 * std::exp(std::min(std::fabs(double{s.max}) * unit, 32.0));
  return double{s.sum} * room >= 1 && double{s.sum} <= columns * room;
}

/// Whether combining states of parts of so many columns may give that one.
template <class T>
inline bool can_be_state(const exact_max_sum<T>& s, double columns) {
  namespace reproducible = core::reproducible;
  const reproducible::exponent<T> largest = reproducible::largest_of(s);
  const reproducible::exact_sum<T> sum = reproducible::sum_of(s);
  const exact_max_sum<T> canonical = reproducible::state_of(largest, sum);
  if (std::memcmp(static_cast<const void*>(&canonical), static_cast<const void*>(&s), sizeof s) !=
      0) {
    return false;
  }
  using total = reproducible::row_total<T>;
  if (total::kind_of(s.max) != reproducible::row_kind::ordinary) {
    return columns > 0 || s.max == -std::numeric_limits<T>::infinity();
  }
  constexpr T unit = std::numeric_limits<T>::epsilon();
  if (columns == 0 || sum.words[0].is_zero() ||
      !(std::fabs(s.lost) <= std::fabs(s.max) * unit + std::numeric_limits<T>::denorm_min())) {
    return false;
  }
  // The place of a packet's sum that has the largest term, or of more columns where sums are
  // rounded.
  const bool is_far = reproducible::frame<T>::of_exponent(T{1}, largest).is_far;
  const auto t = reproducible::term_of(is_far ? reproducible::exponent<T>{} : largest);
  const double n{t.n};
  const double most = n + 4 + (is_far ? std::log2(columns) : 0);
  if (sum.top < std::floor((n - 1) / 32) || sum.top > std::floor(most / 32)) {
    return false;
  }
  // Each column's packet and each combination adds a number, and the largest term is in the sum.
  const double of_word = columns * (sizeof(T) == 4 ? 0x1p56 : 0x1p33);
  for (const reproducible::mass& word : sum.words) {
    if (!(word.count() <= of_word)) {
      return false;
    }
  }
  const double ratio = sum.over(t.n) / static_cast<double>(t.p);
  constexpr double room = 1 + 0x1p-10;
  return ratio * room >= 1 && ratio <= columns * room;
}

}  // namespace softfold::core::state_bytes
