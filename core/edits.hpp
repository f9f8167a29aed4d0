// SPDX-License-Identifier: Apache-2.0
/// \file
/// row_edits as kernels of every backend take them, and the edit of one element: their meaning.
#pragma once

#include <core/softcap.hpp>
#include <core/typed_memory.hpp>

#include <softfold/config.hpp>
#include <softfold/dtype.hpp>
#include <softfold/row_edits.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace softfold::core {

/// Checked row_edits as plain data. A matrix of one row has stride 0, a vector of one value step 0.
struct edits {
  struct matrix {
    const void* data = nullptr;
    std::int64_t stride = 0;
    dtype type = dtype::f32;
  };
  struct vector {
    const void* data = nullptr;
    std::int64_t step = 0;
    dtype type = dtype::f32;
  };

  matrix bias;
  bool adds_bias = true;  ///< else it only removes
  const std::int64_t* penalty_rows = nullptr;
  vector penalty_columns;
  const std::int32_t* penalty_counts = nullptr;
  std::int64_t penalties = 0;
  vector repetition, frequency, presence;
  double softcap = 0;
  matrix mask;
  vector lengths;
  causal corner = causal::none;
  std::int64_t queries = 0;
  std::int64_t window = 0;
  std::int64_t first_row = 0;  ///< of the caller's rows, row 0 of these

  [[nodiscard]] SOFTFOLD_HD bool removes() const {
    return bias.data != nullptr || mask.data != nullptr || lengths.data != nullptr ||
           corner != causal::none;
  }
  [[nodiscard]] SOFTFOLD_HD bool changes_values() const {
    return (bias.data != nullptr && adds_bias) || penalty_rows != nullptr || softcap != 0;
  }
  /// What they remove, and nothing else.
  [[nodiscard]] edits removals() const {
    edits only = *this;
    only.adds_bias = false;
    only.penalty_rows = nullptr;
    only.softcap = 0;
    return only;
  }
  [[nodiscard]] bool any() const { return removes() || changes_values(); }

  /// Those of the rows from `row` on.
  [[nodiscard]] edits from(std::int64_t row) const {
    edits rest = *this;
    rest.first_row += row;
    return rest;
  }
};

/// The columns [0, last) end at a length, which is data.
template <class Column>
SOFTFOLD_HD inline void end_at(Column& last, std::int64_t length) {
  last = length < 0 ? 0 : length < last ? static_cast<Column>(length) : last;
}
/// Of [first, last) those that query `query` of `queries` sees from a corner; no window: 0.
template <class Column>
SOFTFOLD_HD inline void see_from_corner(Column& first, Column& last, Column cols, causal corner,
                                        Column queries, Column query, Column window) {
  const Column seen = query + 1 + (corner == causal::bottom_right ? cols - queries : 0);
  last = seen < last ? (seen < 0 ? 0 : seen) : last;
  first = window > 0 && seen > window ? seen - window : 0;
}

/// The edits of one row.
template <class A>
struct edited_row {
  std::int64_t first = 0;  ///< columns [first, last) are left by lengths, corner and window
  std::int64_t last = 0;
  const std::uint32_t* words = nullptr;
  const std::uint8_t* bytes = nullptr;
  const void* bias = nullptr;  ///< of column 0
  dtype bias_type = dtype::f32;
  const void* penalty_columns = nullptr;
  dtype penalty_columns_type = dtype::i32;
  const std::int32_t* penalty_counts = nullptr;
  std::int64_t penalty = 0;  ///< entries [penalty, penalty_end)
  std::int64_t penalty_end = 0;
  A repetition = 1, frequency = 0, presence = 0;
  A softcap = 0;

  SOFTFOLD_HD edited_row(const edits& all, std::int64_t given_row, std::int64_t cols)
      : last(cols), softcap(static_cast<A>(all.softcap)) {
    const std::int64_t row = all.first_row + given_row;
    if (all.bias.data != nullptr) {
      bias_type = all.bias.type;
      const int size = bias_type == dtype::f64 ? 8 : bias_type == dtype::f32 ? 4 : 2;
      bias = static_cast<const unsigned char*>(all.bias.data) + row * all.bias.stride * size;
    }
    if (all.penalty_rows != nullptr) {
      penalty = inside(all.penalty_rows[row], all.penalties);
      penalty_end = inside(all.penalty_rows[row + 1], all.penalties);
      penalty_columns = all.penalty_columns.data;
      penalty_columns_type = all.penalty_columns.type;
      penalty_counts = all.penalty_counts;
      repetition = number_of(all.repetition, row, A{1});
      frequency = number_of(all.frequency, row, A{0});
      presence = number_of(all.presence, row, A{0});
    }
    if (all.mask.data != nullptr && all.mask.type == dtype::u8) {
      bytes = static_cast<const std::uint8_t*>(all.mask.data) + row * all.mask.stride;
    } else if (all.mask.data != nullptr) {
      words = static_cast<const std::uint32_t*>(all.mask.data) + row * all.mask.stride;
    }
    if (all.lengths.data != nullptr) {
      end_at(last, integer_at(all.lengths.data, all.lengths.type, row));
    }
    if (all.corner != causal::none) {
      see_from_corner(first, last, cols, all.corner, all.queries, row % all.queries, all.window);
    }
  }

  [[nodiscard]] SOFTFOLD_HD bool keeps(std::int64_t column) const {
    return column >= first && column < last &&
           (words == nullptr || (words[column / 32] >> (column % 32) & 1U) != 0) &&
           (bytes == nullptr || bytes[column] != 0) &&
           (bias == nullptr ||
            real_at<A>(bias, bias_type, column) != -std::numeric_limits<A>::infinity());
  }

  /// keeps() of the columns [column, column + count), a bit for each, the lowest first. column is a
  /// multiple of count, which divides 32; of `rest` columns from it on the row has no more.
  template <int count>
  [[nodiscard]] SOFTFOLD_HD unsigned kept(std::int64_t column, std::int64_t rest) const {
    static_assert(32 % count == 0);
    const auto below = [&](std::int64_t limit) {  // bits of columns below it
      const std::int64_t bits = limit - column;
      return bits >= count ? ~0U >> (32 - count) : bits <= 0 ? 0U : (1U << bits) - 1;
    };
    unsigned bits = below(last < column + rest ? last : column + rest) & ~below(first);
    if (words != nullptr && bits != 0) {
      bits &= words[column / 32] >> (column % 32);
    }
    if ((bytes != nullptr || bias != nullptr) && bits != 0) {
      for (int i = 0; i < count; ++i) {
        if ((bits >> i & 1U) != 0 && !keeps(column + i)) {
          bits &= ~(1U << i);
        }
      }
    }
    return bits;
  }

  [[nodiscard]] SOFTFOLD_HD std::int64_t penalty_column(std::int64_t entry) const {
    return integer_at(penalty_columns, penalty_columns_type, entry);
  }
  /// The entry of the first penalty at or after a column.
  [[nodiscard]] SOFTFOLD_HD std::int64_t penalty_from(std::int64_t column) const {
    std::int64_t low = penalty;
    std::int64_t high = penalty_end;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (penalty_column(middle) < column) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
  /// An entry's number as one of the list's ends.
  [[nodiscard]] SOFTFOLD_HD static std::int64_t inside(std::int64_t entry, std::int64_t entries) {
    return entry < 0 ? 0 : entry > entries ? entries : entry;
  }
  [[nodiscard]] SOFTFOLD_HD static A number_of(const edits::vector& v, std::int64_t row,
                                               A otherwise) {
    return v.data == nullptr ? otherwise : real_at<A>(v.data, v.type, row * v.step);
  }
  [[nodiscard]] SOFTFOLD_HD A penalised(A x, std::int64_t entry) const {
    const std::int32_t count = penalty_counts[entry];
    using std::fma;
    const A once = x > 0 ? x / repetition : x * repetition;
    const A rest = fma(-frequency, static_cast<A>(count), once);
    return count > 0 ? rest - presence : rest;
  }

  /// An element that is kept.
  [[nodiscard]] SOFTFOLD_HD A value(A x, std::int64_t column) const;

  /// An element of type In as To, which is In or A. Where no values change, it is not computed
  /// with.
  template <class In, class To>
  SOFTFOLD_HD void edit(const In* x, std::int64_t column, bool changes_values, To removed,
                        To* to) const {
    if (!keeps(column)) {
      *to = removed;
      return;
    }
    if constexpr (std::is_same_v<In, To>) {
      if (!changes_values) {
        *to = *x;
        return;
      }
    }
    *to = To(value(static_cast<A>(*x), column));
  }
};

template <class A>
SOFTFOLD_HD inline A edited_row<A>::value(A x, std::int64_t column) const {
  if (bias != nullptr) {
    x += real_at<A>(bias, bias_type, column);
  }
  if (penalty < penalty_end) {
    const std::int64_t entry = penalty_from(column);
    if (entry < penalty_end && penalty_column(entry) == column) {
      x = penalised(x, entry);
    }
  }
  return softcap != 0 ? softcapped(x, softcap) : x;
}

}  // namespace softfold::core
