// SPDX-License-Identifier: Apache-2.0
/// \file
/// exact_max_sum's monoid, and the states of elements: docs/numerics.md, "States".
///
/// The terms of a near part are those of the whole row, whatever the part's own largest element:
/// their sum is exact, and so is combine. A far part's are relative to its largest element, so that
/// combine rounds the sum of the side that is lower.
#pragma once

#include <core/monoid.hpp>
#include <core/reproducible.hpp>

#include <softfold/config.hpp>
#include <softfold/max_sum.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace softfold::core::reproducible {

template <class A>
SOFTFOLD_HD SOFTFOLD_INLINE exponent<A> largest_of(const exact_max_sum<A>& s) {
  return {s.max, s.lost};
}

/// The words as exact_sum has them; of a state that no part has, some number.
template <class A>
SOFTFOLD_HD inline exact_sum<A> sum_of(const exact_max_sum<A>& s) {
  using sum = exact_sum<A>;
  static_assert(sizeof s.words == sum::words_of * 2 * sizeof(std::uint64_t));
  constexpr std::int64_t lowest = sum::lowest_top;
  sum r;
  r.top = static_cast<std::int32_t>(lowest > s.top ? lowest : s.top > -lowest ? -lowest : s.top);
  for (int i = 0; i < sum::words_of; ++i) {
    r.words[i] = {s.words[i][0], s.words[i][1]};
  }
  return r;
}

/// The state with that largest exponent. All that are not ordinary have one sum, and 0 one sign.
template <class A>
SOFTFOLD_HD inline exact_max_sum<A> state_of(const exponent<A>& largest, const exact_sum<A>& sum) {
  exact_max_sum<A> s;
  if (row_total<A>::kind_of(largest.z) != row_kind::ordinary) {
    s.max = largest.z != largest.z ? std::numeric_limits<A>::quiet_NaN() : largest.z;
    return s;
  }
  s.max = largest.z == 0 ? A{0} : largest.z;
  s.lost = largest.lost == 0 ? A{0} : largest.lost;
  s.top = sum.top;
  for (int i = 0; i < sum.words_of; ++i) {
    s.words[i][0] = sum.words[i].low;
    s.words[i][1] = sum.words[i].high;
  }
  return s;
}

/// Of a row or part with that largest element, of scaled ones, NaN if there is one, and that sum of
/// terms in the frame that state_frame gives.
template <class A>
SOFTFOLD_HD inline exact_max_sum<A> state_of(A scale, A largest, const exact_sum<A>& sum) {
  return state_of(
      largest != largest ? exponent<A>{largest, A{0}} : frame<A>::scaled(scale, largest), sum);
}

/// That of the terms of a part with that largest element.
template <class A>
SOFTFOLD_HD inline frame<A> state_frame(A scale, A largest) {
  return frame<A>::of_exponent(scale, frame<A>::scaled(scale, largest));
}

/// The whole row's, given its state.
template <class A>
SOFTFOLD_HD inline row_total<A> total_of(A scale, const exact_max_sum<A>& s) {
  return row_total<A>::of_exponent(scale, largest_of(s), sum_of(s));
}

/// Of a part of a row, the plain way.
template <class A, class Row>
SOFTFOLD_HD inline exact_max_sum<A> state_of(A scale, std::int64_t cols, const Row& x) {
  return fold_plainly(
      scale, cols, x, [scale](A largest) { return state_frame(scale, largest); },
      [scale](A largest, const exact_sum<A>& sum) { return state_of(scale, largest, sum); });
}

template <class A>
struct exact_max_sum_monoid {
  using value_type = exact_max_sum<A>;

  SOFTFOLD_HD static value_type identity() { return {}; }

  SOFTFOLD_HD static value_type combine(const value_type& a, const value_type& b) {
    const row_kind of_a = row_total<A>::kind_of(a.max);
    const row_kind of_b = row_total<A>::kind_of(b.max);
    if (of_a != row_kind::ordinary || of_b != row_kind::ordinary) {
      const bool takes_a = of_a == row_kind::nan || of_b == row_kind::empty ||
                           (of_a == row_kind::infinite && of_b != row_kind::nan);
      const value_type& one = takes_a ? a : b;
      return state_of(largest_of(one), sum_of(one));
    }
    const bool a_is_upper = a.max > b.max || (a.max == b.max && a.lost >= b.lost);
    return combine_ordered(a_is_upper ? a : b, a_is_upper ? b : a);
  }

 private:
  SOFTFOLD_HD static value_type combine_ordered(const value_type& upper, const value_type& lower) {
    const auto own = frame<A>::of_exponent(A{1}, largest_of(upper));
    const auto other = frame<A>::of_exponent(A{1}, largest_of(lower));
    exact_sum<A> sum = sum_of(upper);
    const bool are_one = own.is_far == other.is_far && own.origin == other.origin &&
                         own.origin_lost == other.origin_lost;
    if (are_one) {
      sum.add(sum_of(lower));
    } else {
      add_rounded(own, upper, other, lower, sum);
    }
    return state_of(largest_of(upper), sum);
  }

  /// The lower side's sum, divided by its largest term, times exp of how far it is below.
  SOFTFOLD_HD static void add_rounded(const frame<A>& own, const value_type& upper,
                                      const frame<A>& other, const value_type& lower,
                                      exact_sum<A>& sum) {
    frame<A> from_upper = own;
    from_upper.origin = upper.max;
    from_upper.origin_lost = upper.lost;
    const exponent<A> e = from_upper.relative(largest_of(lower));
    constexpr A nothing = -600;
    if (!(e.z > nothing && e.z <= 0)) {
      return;
    }
    const term<double> below =
        term_of(exponent<double>{static_cast<double>(e.z) + static_cast<double>(e.lost), 0.0});
    const term<A> of_lower = largest_term(other, lower);
    const term<A> of_upper = largest_term(own, upper);
    const double ratio = sum_of(lower).over(of_lower.n) / static_cast<double>(of_lower.p);
    const double value = product(product(ratio, static_cast<double>(of_upper.p)),
                                 times_power(below.p, static_cast<std::int64_t>(below.n)));
    // A place of room above the upper side's.
    const std::int32_t anchor = anchor_of(of_upper.n) + 1;
    const std::int64_t power = static_cast<std::int64_t>(of_upper.n) - 32 * std::int64_t{anchor};
    const double held = product(value, times_power(1.0, power + format<A>::raised));
    constexpr double least = sizeof(A) == 4 ? 0x1p-100 : 0x1p-200;  // has no digit in the words
    if (held > least) {
      sum.add(static_cast<A>(held), anchor);
    }
  }
  SOFTFOLD_HD static term<A> largest_term(const frame<A>& of, const value_type& s) {
    return term_of(of.is_far ? exponent<A>{} : largest_of(s));
  }
};

static_assert(core::monoid<exact_max_sum_monoid<float>>);
static_assert(core::monoid<exact_max_sum_monoid<double>>);

}  // namespace softfold::core::reproducible
