// SPDX-License-Identifier: Apache-2.0
/// \file
/// Folds over any monoid. The three shapes give the same value up to rounding, and the same
/// bits whenever combine is exact.
///
/// lift(i) makes the state of element i, for 0 <= i < n.
#pragma once

#include <core/monoid.hpp>

#include <cstdint>

namespace softfold::core {

/// Left to right. n combines, error grows with n.
template <monoid M, class Lift>
SOFTFOLD_HD typename M::value_type fold_serial(std::int64_t n, Lift&& lift) {
  auto state = M::identity();
  for (std::int64_t i = 0; i < n; ++i) {
    state = M::combine(state, lift(i));
  }
  return state;
}

/// A serial fold of each tile of `tile` elements, then of the tiles' states. The shape depends
/// on n and tile only, so tiles may be folded by any number of workers.
template <monoid M, class Lift>
SOFTFOLD_HD typename M::value_type fold_tile(std::int64_t n, std::int64_t tile, Lift&& lift) {
  auto state = M::identity();
  for (std::int64_t begin = 0; begin < n; begin += tile) {
    const std::int64_t count = n - begin < tile ? n - begin : tile;
    state =
        M::combine(state, fold_serial<M>(count, [&](std::int64_t i) { return lift(begin + i); }));
  }
  return state;
}

/// fold_tree of the elements begin, ..., begin + n - 1; n > 0.
template <monoid M, class Lift>
SOFTFOLD_HD typename M::value_type fold_subtree(std::int64_t begin, std::int64_t n,
                                                const Lift& lift) {
  if (n == 1) {
    return lift(begin);
  }
  const std::int64_t half = n / 2;
  return M::combine(fold_subtree<M>(begin, half, lift),
                    fold_subtree<M>(begin + half, n - half, lift));
}

/// A balanced tree. Error grows with log2 n.
template <monoid M, class Lift>
SOFTFOLD_HD typename M::value_type fold_tree(std::int64_t n, const Lift& lift) {
  return n <= 0 ? M::identity() : fold_subtree<M>(0, n, lift);
}

}  // namespace softfold::core
