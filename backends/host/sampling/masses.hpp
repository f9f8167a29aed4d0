// SPDX-License-Identifier: Apache-2.0
/// \file
/// The masses of a row's elements, counted in bins of their distance from the largest, and where a
/// filter cuts. Sums are integers: threads and their order do not show.
#pragma once

#include <backends/host/parallel.hpp>
#include <backends/host/sampling/row_view.hpp>

#include <core/raw_sum.hpp>

#include <cstdint>
#include <optional>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

/// Counts of elements and masses by bins, the nearest to the largest element first.
struct mass_table {
  core::sampling::mass masses[unsigned{mass_bins}];
  std::int64_t counts[unsigned{mass_bins}];  ///< the last one's counts what does not exist, too

  void clear();
  void add(const mass_table& other);
};

/// An element that a filter may cut at.
struct mass_entry {
  core::sampling::place at;
  std::uint64_t weight;
};

/// The elements of a bin that may be looked at one by one.
inline constexpr std::int64_t most_entries = 16384;

/// The elements of one row by their masses.
class row_masses {
 public:
  /// How many elements, and their mass.
  struct measure {
    std::int64_t count = 0;
    core::sampling::mass weight;
  };

  /// `tables`: one for each slot that may be at work. `entries` has room for most_entries, or the
  /// row.
  row_masses(executor& on, const plan& plan, const row_view& row, double scale, double largest,
             mass_table* tables, int slot, mass_entry* entries);

  /// The mass of all elements.
  [[nodiscard]] core::sampling::mass whole() const;
  /// What a filter keeps. The count may be 0 unless it is asked for.
  [[nodiscard]] measure of(const core::sampling::kept_elements& kept, bool counts) const;
  /// The end of the first `count` elements; the last place if there are no more than that. Nothing
  /// if too many elements are near it.
  [[nodiscard]] std::optional<core::sampling::place> end_of_count(std::int64_t count) const;
  /// The same of the shortest prefix with that mass, which all elements have.
  [[nodiscard]] std::optional<core::sampling::place> end_of_mass(
      const core::sampling::mass& target) const;

 private:
  /// body(place, z, weight) for the elements of a bin, by column.
  template <class Body>
  void each_of(int bin, Body&& body) const;
  /// Those in the order of top-k, in entries_: how many, or nothing.
  [[nodiscard]] std::optional<std::int64_t> list(int bin) const;

  const row_view& row_;
  double scale_;
  double largest_;
  mass_table& table_;
  mass_entry* entries_;
};

/// The mass of a row.
core::sampling::mass mass_of_row(executor& on, const plan& plan, const row_view& row, double scale,
                                 double largest, mass_table* tables, int slot);

/// log of the sum of exp(x) over exp(largest) in a row of f32 arithmetic as it is.
double raw_log_of_row(executor& on, const plan& plan, const row_view& row, float largest,
                      mass_table* tables, int slot);

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
