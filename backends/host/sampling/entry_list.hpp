// SPDX-License-Identifier: Apache-2.0
/// \file
/// Some elements of a row with their columns, in that order, and what each weighs.
#pragma once

#include <backends/host/sampling/row_view.hpp>

#include <core/sampling.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

/// A first part of the order: the elements above `lowest`, and of those equal to it the ones up to
/// a column.
struct first_part {
  double lowest = -std::numeric_limits<double>::infinity();
  std::int64_t last_column = std::numeric_limits<std::int64_t>::max();

  [[nodiscard]] bool has(double x, std::int64_t column) const {
    return x > lowest || (x == lowest && column <= last_column);
  }
  [[nodiscard]] bool is_shorter_than(const first_part& other) const {
    return lowest != other.lowest ? lowest > other.lowest : last_column < other.last_column;
  }
};

/// Where a filter cuts a row, and the mass before the cut.
struct mass_cut {
  first_part kept;
  core::sampling::mass weight;
};

/// Elements of the arithmetic's type above `low`, up to `high`.
struct value_bracket {
  double low;
  double high;

  /// A value between the ends, which halves their distance, or in every fourth turn the number of
  /// values in between; nothing if there is none.
  [[nodiscard]] std::optional<double> middle(bool is_double, int turn) const;
};

/// The next value of the arithmetic's type.
double next_above(bool is_double, double x);
double next_below(bool is_double, double x);

class entry_list {
 public:
  /// Entries that there may be.
  static constexpr std::int64_t most = 65536;
  static std::size_t bytes(std::int64_t cols, dtype computed);

  entry_list(const row_view& row, std::byte* memory, std::int64_t cols);

  void clear() { n_ = 0; }
  /// Weighs columns [begin, begin + n) of the row, a multiple of 64 or up to its end. end_of() is
  /// for those of a whole row, or appended ones.
  void weigh(const mass_range& of, std::int64_t begin, std::int64_t n);
  /// Adds n elements with their columns relative to `begin`. False if they are too many.
  bool append(const std::byte* values, const std::int32_t* columns, std::int64_t n,
              std::int64_t begin);
  /// Weighs all that was appended.
  void weigh_appended(const mass_range& of);

  [[nodiscard]] core::sampling::mass weight() const {
    return above(-std::numeric_limits<double>::infinity()).weight;
  }
  /// Of entries above a threshold.
  struct part {
    std::int64_t count = 0;
    core::sampling::mass weight;
  };
  [[nodiscard]] part above(double threshold) const;

  /// Narrows a bracket to `few` entries, if values tell more apart. is_above(part): whether what is
  /// looked for is above a threshold that has that part above it.
  template <class IsAbove>
  [[nodiscard]] value_bracket narrowed(value_bracket in, std::int64_t few,
                                       IsAbove&& is_above) const {
    std::int64_t above_low = above(in.low).count;
    std::int64_t above_high = above(in.high).count;
    for (int turn = 0; above_low - above_high > few; ++turn) {
      const std::optional<double> middle = in.middle(row_.is_double(), turn);
      if (!middle) {
        break;
      }
      const part own = above(*middle);
      if (is_above(own)) {
        in.low = *middle;
        above_low = own.count;
      } else {
        in.high = *middle;
        above_high = own.count;
      }
    }
    return in;
  }

  /// The shortest first part of the entries in the bracket that reaches the target together with
  /// what weighs `before`: all other elements above the bracket. The entries do.
  [[nodiscard]] mass_cut end_of(const core::sampling::mass& target,
                                const core::sampling::mass& before, const value_bracket& in) const {
    return ends_of(target, target, before, in).first;
  }
  /// Of two targets, of which the second is a little larger or the same.
  [[nodiscard]] std::pair<mass_cut, mass_cut> ends_of(const core::sampling::mass& target,
                                                      const core::sampling::mass& second,
                                                      const core::sampling::mass& before,
                                                      const value_bracket& in) const;

 private:
  [[nodiscard]] std::byte* value_at(std::int64_t i) const {
    return values_ + i * static_cast<std::int64_t>(size_of(row_.from.kernels.computed));
  }
  [[nodiscard]] std::int64_t column(std::int64_t i) const { return appended_ ? columns_[i] : i; }
  void weigh_at(const input_kernels& kernels, const void* x, std::int64_t at, std::int64_t n,
                const mass_range& of);

  const row_view& row_;
  std::byte* values_;
  std::uint64_t* weights_;
  std::int64_t* columns_;
  std::int64_t n_ = 0;
  bool appended_ = false;
};

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
