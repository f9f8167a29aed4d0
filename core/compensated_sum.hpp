// SPDX-License-Identifier: Apache-2.0
/// \file
/// A sum of f64 numbers that keeps what the additions round off.
#pragma once

#include <core/always_inline.hpp>
#include <core/monoid.hpp>
#include <core/two_sum.hpp>

#include <softfold/config.hpp>

namespace softfold::core {

/// value + lost. What is infinite or NaN makes `lost` NaN.
struct compensated_sum {
  double value = 0;
  double lost = 0;

  SOFTFOLD_HD constexpr SOFTFOLD_INLINE void add(double term) {
    const auto total = two_sum<double>::of(value, term);
    lost += total.lost;
    value = total.value;
  }
  [[nodiscard]] SOFTFOLD_HD constexpr SOFTFOLD_INLINE double total() const { return value + lost; }
};

struct compensated_monoid {
  using value_type = compensated_sum;

  SOFTFOLD_HD static constexpr value_type identity() { return {}; }
  SOFTFOLD_HD static constexpr value_type combine(value_type a, const value_type& b) {
    a.lost += b.lost;
    a.add(b.value);
    return a;
  }
};
static_assert(monoid<compensated_monoid>);

}  // namespace softfold::core
