// SPDX-License-Identifier: Apache-2.0
/// \file
/// Parts of reproducible rows: their sums, each by an anchor of its own.
#pragma once

#include <core/reproducible.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace softfold::test {

template <class A>
A largest_of(A scale, const std::vector<A>& x, std::size_t begin, std::size_t end) {
  constexpr A infinity = std::numeric_limits<A>::infinity();
  A largest = scale < 0 ? infinity : -infinity;
  for (std::size_t i = begin; i < end; ++i) {
    largest = core::reproducible::is_larger(scale, x[i], largest) ? x[i] : largest;
  }
  return largest;
}

/// x[begin, end) of a row with that frame, by an anchor that is so much higher than it has to be.
template <class A>
core::reproducible::exact_sum<A> sum_of_part(const core::reproducible::frame<A>& frame,
                                             const std::vector<A>& x, std::size_t begin,
                                             std::size_t end, std::int32_t raised) {
  namespace definition = core::reproducible;
  definition::exact_sum<A> sum;
  const definition::exponent<A> top = frame(largest_of(frame.scale, x, begin, end));
  if (!(top.z > definition::row_total<A>::lowest())) {
    return sum;
  }
  const std::int32_t anchor = definition::anchor_of(definition::term_of(top).n) + raised;
  constexpr auto columns = static_cast<std::size_t>(definition::packet_columns);
  for (std::size_t c = begin; c < end; c += columns) {
    definition::exponent<A> e[columns];
    for (std::size_t i = 0; i < columns; ++i) {
      e[i] = c + i < end ? frame(x[c + i])
                         : definition::exponent<A>{-std::numeric_limits<A>::infinity(), 0};
    }
    definition::add_packet(e, anchor, sum);
  }
  return sum;
}

/// Whether two totals give every element the same.
template <class A>
bool same_total(const core::reproducible::row_total<A>& a,
                const core::reproducible::row_total<A>& b) {
  return a.n == b.n && a.high == b.high && a.low == b.low && a.log_high == b.log_high &&
         a.log_low == b.log_low && a.lse == b.lse;
}

}  // namespace softfold::test
