// SPDX-License-Identifier: Apache-2.0
/// \file
/// The state of a row, or of a part of one.
#pragma once

#include <cstdint>
#include <limits>

namespace softfold {

/// The partial state of a softmax: `max` is the largest scaled element of a part, `sum` is the
/// sum of exp(x - max) over it. The default value is the identity, the state of no elements
/// (or of -infinity only). States of disjoint parts of one row, made anywhere, combine to the
/// state of their union: see combine() in softfold.hpp. A part with a NaN has max = NaN; a part
/// with +infinity and no NaN has max = +infinity.
///
/// logsumexp of the part is max + log(sum).
template <class T>
struct max_sum {
  T max = -std::numeric_limits<T>::infinity();
  T sum = 0;

  friend bool operator==(const max_sum&, const max_sum&) = default;
};

/// The same with the exact sum of reproducible numerics (docs/numerics.md, "States"): T is float or
/// double. States of parts that meet at multiples of 8 columns, made by any backend and combined in
/// any order and grouping, give the whole row's state bit for bit, and with it the results of a
/// queue of numerics::reproducible, unless the largest scaled element is 2^16 or more from 0. Other
/// parts and rows are within the bounds of docs/semantics.md.
///
/// No row of fewer than 2^64 columns overflows a word. The default value is the identity.
template <class T>
struct exact_max_sum {
  T max = -std::numeric_limits<T>::infinity();  ///< the largest scaled element; NaN as in max_sum
  T lost = 0;                                   ///< that element is max + lost
  /// Of a finite max: words[i] has value 2^(32 (top - i)), f32's 2^(32 (top - i) - 23), is not
  /// carried into words[i - 1], and has its lower 64 bits first.
  std::int64_t top = -(1 << 16);
  std::uint64_t words[sizeof(T) == 4 ? 3 : 4][2] = {};

  friend bool operator==(const exact_max_sum&, const exact_max_sum&) = default;
};

/// Which of the two states are.
enum class sum_kind : std::uint8_t {
  rounded,  ///< max_sum
  exact,    ///< exact_max_sum
};

}  // namespace softfold
