// SPDX-License-Identifier: Apache-2.0
/// \file
/// The state of sampling from a row, or from a part of one.
#pragma once

#include <softfold/dtype.hpp>

#include <cstdint>
#include <limits>
#include <ranges>
#include <type_traits>

namespace softfold {

/// A sum of exp(z) of which no bit depends on the order of its additions: words[i] adds up the
/// 32-bit digits of value 2^(32 (top - i)) of its terms, top is that of the largest term, and what
/// is below words[2], less than 2^-63 of the largest term for each, is left out. No terms: the
/// default value.
struct exponential_sum {
  std::int64_t top = std::numeric_limits<std::int64_t>::min();
  std::uint64_t words[3] = {};

  friend bool operator==(const exponential_sum&, const exponential_sum&) = default;
};

/// What drawing one token from a row has to know of a part of its columns. fold_sample makes it,
/// combine_sample adds states of disjoint parts of one row, made anywhere, in any order and
/// grouping, to the same bits; finish_sample draws. Columns are those of the whole row.
///
/// With a top_k the k first elements belong to the state, in lists beside it.
struct sample_state {
  // Equal in all parts of a row.
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  std::int64_t draw = 0;
  /// 1 / temperature as the arithmetic has it; infinity for temperature 0. NaN: parameters that are
  /// out of range, or that a state cannot have, or that two parts did not have in common.
  double scale = 1;
  double top_p = 1;
  double min_p = 0;
  std::int64_t top_k = 0;

  /// The first element in the order of topk; NaN if there is one. Column -1: nothing above
  /// -infinity.
  double largest = -std::numeric_limits<double>::infinity();
  std::int64_t largest_column = -1;
  /// The largest key of docs/sampling.md, with its element. Column -1: none, as with a top_k or
  /// with temperature 0, where there is no race.
  double key = -std::numeric_limits<double>::infinity();
  double value = -std::numeric_limits<double>::infinity();
  std::int64_t column = -1;
  std::int64_t count = 0;   ///< elements above -infinity after the scale
  exponential_sum sum;      ///< of the scaled elements
  exponential_sum raw_sum;  ///< of the elements as they are

  friend bool operator==(const sample_state&, const sample_state&) = default;
};

namespace detail {
template <class Range>
concept sample_state_range =
    std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    std::is_same_v<std::remove_cvref_t<std::ranges::range_reference_t<Range>>, sample_state>;
}  // namespace detail

/// Read-only states, one for each row.
struct const_sample_states_ref {
  const sample_state* data = nullptr;
  std::int64_t size = 0;

  constexpr const_sample_states_ref() = default;
  constexpr const_sample_states_ref(const sample_state* data_, std::int64_t size_) noexcept
      : data(data_), size(size_) {}
  template <detail::sample_state_range Range>
  constexpr const_sample_states_ref(Range&& range) noexcept  // NOLINT
      : const_sample_states_ref(std::ranges::data(range),
                                static_cast<std::int64_t>(std::ranges::size(range))) {}
};

/// Writable states, one for each row.
struct sample_states_ref {
  sample_state* data = nullptr;
  std::int64_t size = 0;

  constexpr sample_states_ref() = default;
  constexpr sample_states_ref(sample_state* data_, std::int64_t size_) noexcept
      : data(data_), size(size_) {}
  template <detail::sample_state_range Range>
  constexpr sample_states_ref(Range&& range) noexcept  // NOLINT
      : sample_states_ref(std::ranges::data(range),
                          static_cast<std::int64_t>(std::ranges::size(range))) {}
  constexpr operator const_sample_states_ref() const noexcept {  // NOLINT
    return {data, size};
  }
};

}  // namespace softfold
