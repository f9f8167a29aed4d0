// SPDX-License-Identifier: Apache-2.0
/// \file
/// The state of a row, or of a part of one.
#pragma once

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

}  // namespace softfold
