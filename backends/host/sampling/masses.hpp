// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a row's elements weigh, and where a filter cuts. Sums are integers: threads and their order
/// do not show.
#pragma once

#include <backends/host/parallel.hpp>
#include <backends/host/sampling/entry_list.hpp>
#include <backends/host/sampling/row_view.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

/// What one task needs to weigh rows.
class mass_memory {
 public:
  static std::size_t bytes(std::int64_t cols, dtype computed);
  mass_memory(std::byte* memory, std::int64_t cols, dtype computed);

  mass_sums* sums;            ///< one for each segment
  reproducible_part* totals;  ///< the same
  double* above;              ///< the same
  std::byte* values;          ///< what segments list, segment_room of each
  std::int32_t* columns;
  std::byte* entries;

  static constexpr std::int64_t segment_room = segment_columns / 4;
};

/// A row's mass as floating-point arithmetic has it, all elements' relative errors below 2^-16.
struct about_mass {
  frame e;          ///< how e(x) is computed
  double unit = 0;  ///< the weight of e(x) = 1 in units of the largest element's
  double sum = 0;   ///< of e(x); 0 if it is not known

  [[nodiscard]] double whole() const { return sum * unit; }
};

/// Two first parts of a row, between which a cut is.
struct cut_bounds {
  first_part surely;
  first_part maybe;
};

/// The elements of one row by their masses. Its largest z is finite, and it has no NaN.
class row_masses {
 public:
  row_masses(executor& on, const plan& plan, const row_view& row, double scale, double largest_x,
             const mass_memory& memory);

  /// Everything that exists, and is at most so far below the largest z.
  [[nodiscard]] first_part within(double depth) const;
  [[nodiscard]] core::sampling::mass weight_of(const first_part& part) const;
  [[nodiscard]] std::int64_t count_of(const first_part& part) const;
  /// The first `count` elements of a part; nothing if it has no more than that.
  [[nodiscard]] std::optional<mass_cut> first_of(std::int64_t count, const first_part& part) const;
  /// The shortest first part with p of a part's mass; `about` does not show.
  [[nodiscard]] mass_cut share_of(double p, const first_part& part, const about_mass& about) const;
  /// Where that is of the whole row, for less work; nothing if that does not tell.
  [[nodiscard]] std::optional<cut_bounds> bounds_of_share(double p, const about_mass& about) const;

 private:
  /// Sums over a row.
  struct look {
    core::sampling::mass whole;
    core::sampling::mass above;
  };

  [[nodiscard]] bool is_short() const;
  [[nodiscard]] mass_range range_of(const first_part& part, bool weighs) const;
  [[nodiscard]] value_bracket bracket_of(const mass_range& range) const;
  [[nodiscard]] mass_range listed_by(mass_range range, std::int64_t segment) const;
  [[nodiscard]] look look_at(const mass_range& range, std::int64_t first_column = 0) const;
  [[nodiscard]] core::sampling::mass excess(const first_part& part, bool weighs) const;
  [[nodiscard]] core::sampling::mass sum_of(const first_part& part, bool weighs) const;
  [[nodiscard]] std::uint64_t weight(double x, bool weighs) const;
  /// Each segment's list to one; false if there was no room.
  bool take_listed(entry_list& list) const;

  /// Where a cut is, as a sample of the row has it. above(whole, slack): what of the sample's mass
  /// is above the cut, or up to so many times as far from there.
  template <class Above>
  [[nodiscard]] value_bracket likely(entry_list& list, const mass_range& range,
                                     Above&& above) const;
  /// target_of(mass of the part): the mass to reach, which the part has.
  template <class TargetOf, class Above>
  [[nodiscard]] std::optional<mass_cut> end_of(const first_part& part, bool weighs,
                                               TargetOf&& target_of, Above&& above) const;
  /// The cut among elements equal to x.
  [[nodiscard]] mass_cut end_among(double x, mass_range range,
                                   const core::sampling::mass& target) const;

  executor& on_;
  const plan& plan_;
  const row_view& row_;
  double scale_;
  double largest_x_;
  double largest_;  ///< z
  const mass_memory& memory_;
};

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
