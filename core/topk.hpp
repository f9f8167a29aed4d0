// SPDX-License-Identifier: Apache-2.0
/// \file
/// The order of top-k, and the combination of sorted lists of k elements.
///
/// The order is total: NaN, then +infinity down to -infinity with +0 equal to -0; equal values
/// by lower index. It is the order of unsigned keys, larger first, so that it is the same on
/// every backend and merging lists in any order gives the one answer.
#pragma once

#include <softfold/dtype.hpp>

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace softfold::core {

/// Unsigned key of a value: a ranks before b exactly if order_key(a) > order_key(b). Every NaN
/// has the greatest key, +0 and -0 have one key. No value has key 0.
SOFTFOLD_HD constexpr std::uint32_t order_key(float x) {
  if (x != x) {
    return std::numeric_limits<std::uint32_t>::max();
  }
  const auto u = std::bit_cast<std::uint32_t>(x == 0 ? 0.0F : x);
  return (u & 0x80000000U) != 0 ? ~u : u | 0x80000000U;
}

SOFTFOLD_HD constexpr std::uint64_t order_key(double x) {
  if (x != x) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  const auto u = std::bit_cast<std::uint64_t>(x == 0 ? 0.0 : x);
  return (u & 0x8000000000000000U) != 0 ? ~u : u | 0x8000000000000000U;
}

/// The value of a key: what order_key was given, with +0 for -0 and one NaN for all.
template <class T>
SOFTFOLD_HD constexpr T value_of_key(std::uint64_t key) {
  using bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr bits sign = bits{1} << (sizeof(T) * 8 - 1);
  const auto k = static_cast<bits>(key);
  if (k == std::numeric_limits<bits>::max()) {
    return std::numeric_limits<T>::quiet_NaN();
  }
  return std::bit_cast<T>((k & sign) != 0 ? static_cast<bits>(k ^ sign) : static_cast<bits>(~k));
}

/// An element with its column.
template <class T>
struct ranked {
  T value = -std::numeric_limits<T>::infinity();
  std::int64_t index = std::numeric_limits<std::int64_t>::max();  ///< max: no element
};

/// Whether a stands before b in the result. An absent element stands after every element.
template <class T>
SOFTFOLD_HD constexpr bool ranks_before(const ranked<T>& a, const ranked<T>& b) {
  const auto ka = order_key(a.value);
  const auto kb = order_key(b.value);
  return ka != kb ? ka > kb : a.index < b.index;
}

/// One row's sorted list of a run-time length, in the caller's memory. Entries of negative index
/// are absent.
template <class T, class Index>
struct sorted_list {
  using arithmetic = std::conditional_t<std::is_same_v<std::remove_cv_t<T>, double>, double, float>;
  T* values;
  Index* indices;

  SOFTFOLD_HD constexpr ranked<arithmetic> operator[](std::int64_t i) const {
    if (indices[i] < 0) {
      return {};
    }
    return {static_cast<arithmetic>(values[i]), indices[i]};
  }
};

/// The combination of such lists of k entries, in place: `to` becomes the k best of both. O(k), no
/// other memory. Of lists that are not sorted, it makes some k of their entries.
template <class T, class Index>
SOFTFOLD_HD constexpr void combine_sorted(const sorted_list<const T, const Index>& more,
                                          const sorted_list<T, Index>& to, std::int64_t k) {
  std::int64_t from_more = 0;
  while (from_more < k && ranks_before(more[from_more], to[k - 1 - from_more])) {
    ++from_more;
  }
  // How many entries each list gives is known now: merge them from the back.
  std::int64_t from_to = k - from_more;
  for (std::int64_t i = k - 1; i >= 0; --i) {
    const bool take_more =
        from_more > 0 && (from_to == 0 || ranks_before(to[from_to - 1], more[from_more - 1]));
    const std::int64_t source = take_more ? --from_more : --from_to;
    to.values[i] = take_more ? more.values[source] : to.values[source];
    to.indices[i] = take_more ? more.indices[source] : to.indices[source];
    if (to.indices[i] < 0) {
      to.values[i] =
          T(-std::numeric_limits<typename sorted_list<T, Index>::arithmetic>::infinity());
      to.indices[i] = Index{-1};
    }
  }
}

}  // namespace softfold::core
