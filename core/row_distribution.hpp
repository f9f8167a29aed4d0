// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a row's temperature and filters make of it: the probability of each of its elements.
#pragma once

#include <core/sampling.hpp>
#include <core/topk.hpp>

#include <softfold/config.hpp>

#include <cstdint>

namespace softfold::core::sampling {

struct row_distribution {
  row_kind kind = row_kind::empty;
  bool is_certain = false;  ///< all of it is the first element's
  std::int64_t first = 0;
  double scale = 1;
  kept_elements kept;
  mass weight;  ///< of what is kept

  SOFTFOLD_HD bool has_token() const {
    return kind == row_kind::ordinary || kind == row_kind::infinite;
  }
  /// Of the element x at a column; 0 everywhere if there is no token.
  template <class A>
  SOFTFOLD_HD double probability(A x, std::int64_t column) const {
    if (!has_token()) {
      return 0;
    }
    if (is_certain) {
      return column == first ? 1 : 0;
    }
    const double z = scaled(scale, static_cast<double>(x));
    if (!kept.has(z, {static_cast<std::uint64_t>(order_key(x)), column})) {
      return 0;
    }
    constexpr double unit = 0x1p-50;
    return product(static_cast<double>(weight_of(kept.largest - z)), unit) / weight.value();
  }
};

}  // namespace softfold::core::sampling
