// SPDX-License-Identifier: Apache-2.0
/// \file
/// The few best elements of many rows of few columns: a lane for each row. Columns come as
/// vectors by transposing tiles, and every lane keeps a sorted list, without a branch.
///
/// A list's keys have 32 bits: an element's highest bits, then its column. Where those bits do
/// not tell elements apart that the result does, and where a row is not near zero, the row is
/// left to others.
#pragma once

#include <backends/host/kernels/short_rows.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// What topk_batch takes.
inline constexpr std::int64_t most_batched = 8;
inline constexpr std::int64_t most_batched_columns = 1024;

/// Row i of the transposed `columns` to y + i * stride, k elements, for each bit i of `done`. A
/// function that compilers may share among the results of all kinds, where copies would take them
/// minutes, as with the sanitizers.
template <class V, class Out, unsigned size>
inline void write_transposed(const V (&columns)[size], Out* y, std::int64_t stride, int k,
                             unsigned done) {
  V tile[size];
#pragma GCC unroll 16
  for (unsigned i = 0; i < size; ++i) {
    tile[i] = columns[i];
  }
  transpose(tile);
#pragma GCC unroll 16
  for (unsigned i = 0; i < size; ++i) {
    if ((done >> i & 1u) != 0) {
      tile[i].store(y + static_cast<std::int64_t>(i) * stride, k);
    }
  }
}

/// Lists of `entries` - 1 elements; the last entry tells whether the one before is certain.
template <class T, int entries, bool fold, bool scaled>
class topk_batch {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  static constexpr int lanes = V::lanes;
  static constexpr unsigned size = static_cast<unsigned>(lanes);
  typedef std::int32_t keys __attribute__((vector_size(4 * vec<float>::lanes)));
  /// Elements of 16 bits leave room for any column.
  static constexpr bool exact = sizeof(T) == 2;
  /// Rows from so many columns on are listed by the maxima of four columns.
  static constexpr std::int64_t least_by_fours = 192;
  /// What a first-level cache holds beside the batch at work.
  static constexpr std::int64_t first_level_bytes = 8192;

 public:
  explicit SOFTFOLD_INLINE topk_batch(const topk_rows& rows)
      : rows_(rows),
        above_(static_cast<A>(near_above / rows.scale)),
        below_(static_cast<A>(near_below / rows.scale)),
        near_(frame{.how = form::power, .scale = rows.scale, .origin = near_origin}) {
    while (column_mask_ + 1 < rows.cols) {
      column_mask_ = 2 * column_mask_ + 1;
    }
  }

  /// The `count` <= lanes rows from row r on. Returns a bit for each row that is left undone.
  SOFTFOLD_INLINE unsigned write(std::int64_t r, int count) {
    const T* x[size];
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) {
      x[i] = static_cast<const T*>(rows_.x) + (r + (i < count ? i : count - 1)) * rows_.x_stride;
    }
    if (count == lanes) {
      ask_for_results(r + lanes);
    }
    const unsigned refused =
        rows_.cols >= least_by_fours ? list<true>(x) | list_elements(x) : list<false>(x);
    const unsigned all = (1u << count) - 1u;
    const unsigned done = all & ~(refused | look_up(x));
    write_indices(r, done);
    if (rows_.values != nullptr) {
      write_values(rows_.values, rows_.values_as_input, r * rows_.values_stride,
                   rows_.values_stride, done, [](V v) { return v; });
    }
    if constexpr (fold) {
      if (rows_.probabilities != nullptr) {
        V factor;
        factor.v = V(A{1}).v / sum_.v;
        write_values(rows_.probabilities, rows_.probabilities_as_input,
                     r * rows_.probabilities_stride, rows_.probabilities_stride, done,
                     [&](V v) { return near_.exp(v) * factor; });
      }
    }
    return all & ~done;
  }

 private:
  /// The higher bits of an element, in the order of integers, with a code in the lower ones.
  static SOFTFOLD_INLINE keys key_of(V v, const keys& mask, const keys& code) {
    const keys bits = __builtin_bit_cast(keys, v + V(A{0}));  // +0 for -0
    const keys order = bits ^ ((bits >> 31) & INT32_MAX);
    return (order & ~mask) | code;
  }

  static SOFTFOLD_INLINE void clear(keys (&best)[static_cast<unsigned>(entries)]) {
#pragma GCC unroll 16
    for (int j = 0; j < entries; ++j) {
      best[j] = keys{} + INT32_MIN;
    }
  }
  static SOFTFOLD_INLINE void insert(keys (&best)[static_cast<unsigned>(entries)], keys entering) {
#pragma GCC unroll 16
    for (int j = 0; j < entries; ++j) {
      const keys leaving = best[j] < entering ? best[j] : entering;
      best[j] = best[j] > entering ? best[j] : entering;
      entering = leaving;
    }
  }

  /// The results' lines of the rows from r on: each is written in pieces, and would be waited for.
  SOFTFOLD_INLINE void ask_for_results(std::int64_t r) const {
    const std::size_t value_bytes[] = {sizeof(A), sizeof(T)};
    ask_for_lines(rows_.indices, r, rows_.indices_stride, rows_.wide_indices ? 8 : 4);
    if (rows_.values != nullptr) {
      ask_for_lines(rows_.values, r, rows_.values_stride, value_bytes[rows_.values_as_input]);
    }
    if (rows_.probabilities != nullptr) {
      ask_for_lines(rows_.probabilities, r, rows_.probabilities_stride,
                    value_bytes[rows_.probabilities_as_input]);
    }
  }
  static SOFTFOLD_INLINE void ask_for_lines(const void* y, std::int64_t r, std::int64_t stride,
                                            std::size_t bytes) {
    const auto row = static_cast<std::uintptr_t>(stride) * bytes;
    const auto first = reinterpret_cast<std::uintptr_t>(y) + static_cast<std::uintptr_t>(r) * row;
    const std::uintptr_t step = row > 64 ? row : 64;  // a line
    for (std::uintptr_t at = 0; at < size * row; at += step) {
      prefetch_to_write(reinterpret_cast<const void*>(first + at));
    }
  }

  static SOFTFOLD_INLINE void ask_for(std::uintptr_t next, bool small) {
    if (small) {
#pragma GCC unroll 16
      for (std::uintptr_t i = 0; i < size; ++i) {
        prefetch(reinterpret_cast<const void*>(next + i * sizeof(T) * size));
      }
    } else {
#pragma GCC unroll 16
      for (std::uintptr_t i = 0; i < size; ++i) {
        prefetch_l2(reinterpret_cast<const void*>(next + i * sizeof(T) * size));
      }
    }
  }

  /// The lists' keys, of elements or of the maxima of four columns, and the sums. Returns a bit
  /// for each row that has a NaN.
  template <bool fours>
  SOFTFOLD_INLINE unsigned list(const T* const (&x)[size]) {
    const std::int64_t n = rows_.cols;
    // The next rows are asked for in the order of memory, which is what it delivers best.
    auto next = reinterpret_cast<std::uintptr_t>(x[0]) +
                static_cast<std::uintptr_t>(lanes * rows_.x_stride) * sizeof(T);
    const bool small = lanes * n * static_cast<std::int64_t>(sizeof(T)) <= first_level_bytes;
    keys best[static_cast<unsigned>(entries)];
    clear(best);
    V totals[4] = {V(A{0}), V(A{0}), V(A{0}), V(A{0})};  // in turn: few additions one upon another
    typename V::mask nan = V::none();
    const keys mask = keys{} + (fours ? column_mask_ / 4 : column_mask_);
    keys code = mask;  // lower columns first
    for (std::int64_t column = 0; column < n; column += lanes) {
      V tile[size];
      const std::int64_t left = n - column;
      if (left >= lanes) {
#pragma GCC unroll 16
        for (int i = 0; i < lanes; ++i) {
          tile[i] = V::load(x[i] + column);
        }
        ask_for(next, small);
        next += size * sizeof(T) * size;
        if constexpr (fours) {
#pragma GCC unroll 16
          for (int i = 0; i < lanes; ++i) {
            prefetch(x[i] + column + lanes);
          }
        }
      } else {
#pragma GCC unroll 16
        for (int i = 0; i < lanes; ++i) {
          tile[i] = V::load(x[i] + column, static_cast<int>(left), V(-infinity<A>));
        }
      }
      transpose(tile);
      V sums[4] = {V(A{0}), V(A{0}), V(A{0}), V(A{0})};
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) {
        const V v = tile[i];
        if constexpr (fold) {
          sums[i % 4] = sums[i % 4] + near_.exp(v);
        } else {
          nan = V::either(nan, unordered(v, v));
        }
        if constexpr (!fours) {
          insert(best, key_of(v, mask, code));
          code -= 1;
        } else if (i % 4 == 3) {
          const V largest = max(max(tile[i - 3], tile[i - 2]), max(tile[i - 1], v));
          insert(best, key_of(largest, mask, code));
          code -= 1;
        }
      }
      const V total = totals[0] + ((sums[0] + sums[1]) + (sums[2] + sums[3]));
      totals[0] = totals[1];
      totals[1] = totals[2];
      totals[2] = totals[3];
      totals[3] = total;
    }
#pragma GCC unroll 16
    for (int j = 0; j < entries; ++j) {
      best_[j] = best[j];
    }
    sum_ = (totals[0] + totals[1]) + (totals[2] + totals[3]);
    return V::bits(nan);
  }

  /// From the lists of fours to those of elements: the k best are in the k fours of the largest
  /// maxima. Returns a bit for each row where it is uncertain which these are.
  SOFTFOLD_INLINE unsigned list_elements(const T* const (&x)[size]) {
    const std::int64_t n = rows_.cols;
    const keys mask = keys{} + column_mask_ / 4;
    const keys element_mask = keys{} + column_mask_;
    const keys last = keys{} + static_cast<std::int32_t>((n - 1) / 4);
    keys best[static_cast<unsigned>(entries)];
    clear(best);
    for (std::int64_t j = 0; j < rows_.k; ++j) {
      const keys four = (best_[j] & mask) ^ mask;
      const keys column = 4 * (four < last ? four : last);  // less than that of a row of NaN
      alignas(64) std::int32_t columns[size];
      __builtin_memcpy(columns, &column, sizeof column);
      alignas(64) T found[4 * size];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) {
        copy_four(x[i], columns[i], found + 4 * i);
      }
      V elements[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        elements[i] = V::load(found + i * lanes);
      }
      transpose(elements);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        insert(best, key_of(elements[i], element_mask, element_mask - (column + i)));
      }
    }
    const unsigned uncertain = equal_at(mask);
#pragma GCC unroll 16
    for (int j = 0; j < entries; ++j) {
      best_[j] = best[j];
    }
    return uncertain;
  }

  /// Elements after the row's last are -infinity.
  SOFTFOLD_INLINE void copy_four(const T* x, std::int32_t column, T* to) const {
    if (column + 4 <= rows_.cols) [[likely]] {
      __builtin_memcpy(to, x + column, 4 * sizeof(T));
      return;
    }
    for (int i = 0; i < 4; ++i) {
      if (column + i < rows_.cols) {
        to[i] = x[column + i];
      } else {
        V(-infinity<A>).store(to + i, 1);
      }
    }
  }

  /// A bit for each row whose key k - 1 may not be greater than key k.
  SOFTFOLD_INLINE unsigned equal_at(const keys& mask) const {
    if constexpr (exact) {
      return 0;
    } else {
      const keys differ = (best_[rows_.k - 1] ^ best_[rows_.k]) & ~mask;
      const auto one = __builtin_bit_cast(keys, V(A{1}));
      return V::bits(greater(__builtin_bit_cast(V, differ == 0 ? one : keys{}), V(A{0})));
    }
  }

  /// Columns and values of the lists. Returns a bit for each row of uncertain order, or not near
  /// zero.
  SOFTFOLD_INLINE unsigned look_up(const T* const (&x)[size]) {
    const std::int64_t k = rows_.k;
    const keys mask = keys{} + column_mask_;
    const keys last = keys{} + static_cast<std::int32_t>(rows_.cols - 1);
    for (std::int64_t j = 0; j < k; ++j) {
      const keys column = (best_[j] & mask) ^ mask;
      const keys inside = column < last ? column : last;  // of a row of NaN
      __builtin_memcpy(columns_[j], &inside, sizeof inside);
      T found[size];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) {
        found[i] = x[i][columns_[j][i]];
      }
      values_[j] = V::load(found);
    }
    unsigned refused = 0;
    if constexpr (!exact) {
      for (std::int64_t j = 1; j < k; ++j) {
        refused |= V::bits(greater(values_[j], values_[j - 1]));
      }
      refused |= equal_at(mask);
    }
    if constexpr (fold) {
      const unsigned near = V::bits(greater(values_[0], below_)) &
                            ~V::bits(greater(values_[0], above_)) &
                            V::bits(greater(V(infinity<A>), sum_));
      refused |= ~near;
    }
    return refused;
  }

  /// Whether a row's results are a vector, and come by transposing the lists'.
  static constexpr bool transposes = entries - 1 <= lanes;

  /// Element j of row i's results is lane i of result(j). A bit of `done` for each row.
  template <class Out, class Result>
  SOFTFOLD_INLINE void write_rows(Out* y, std::int64_t stride, unsigned done,
                                  const Result& result) const {
    const auto k = static_cast<int>(rows_.k);
    V tile[size];
#pragma GCC unroll 16
    for (int j = 0; j < lanes; ++j) {
      tile[j] = j < entries - 1 ? result(j) : V(A{0});
    }
    write_transposed(tile, y, stride, k, done);
  }

  SOFTFOLD_INLINE void write_indices(std::int64_t r, unsigned done) const {
    const std::int64_t k = rows_.k;
    const std::int64_t offset = rows_.column_offset;
    if (transposes && !rows_.wide_indices) {
      auto* const to = static_cast<std::int32_t*>(rows_.indices) + r * rows_.indices_stride;
      write_rows(reinterpret_cast<float*>(to), rows_.indices_stride, done, [&](int j) {
        keys columns;
        __builtin_memcpy(&columns, columns_[j], sizeof columns);
        return __builtin_bit_cast(V, columns + static_cast<std::int32_t>(offset));
      });
      return;
    }
    for (; done != 0; done &= done - 1) {
      const int i = __builtin_ctz(done);
      const std::int64_t at = (r + i) * rows_.indices_stride;
      if (rows_.wide_indices) {
        auto* const to = static_cast<std::int64_t*>(rows_.indices) + at;
#pragma GCC unroll 1
        for (std::int64_t j = 0; j < k; ++j) {
          to[j] = columns_[j][i] + offset;
        }
      } else {
        auto* const to = static_cast<std::int32_t*>(rows_.indices) + at;
#pragma GCC unroll 1
        for (std::int64_t j = 0; j < k; ++j) {
          to[j] = columns_[j][i] + static_cast<std::int32_t>(offset);
        }
      }
    }
  }

  template <class F>
  SOFTFOLD_INLINE void write_values(void* y, bool as_input, std::int64_t at, std::int64_t stride,
                                    unsigned done, F&& f) const {
    if (as_input) {
      write_values_as(static_cast<T*>(y) + at, stride, done, f);
    } else {
      write_values_as(static_cast<A*>(y) + at, stride, done, f);
    }
  }
  template <class Out, class F>
  SOFTFOLD_INLINE void write_values_as(Out* y, std::int64_t stride, unsigned done, F&& f) const {
    if constexpr (transposes) {
      write_rows(y, stride, done, [&](int j) { return f(values_[j]); });
      return;
    }
    Out results[static_cast<unsigned>(entries)][size];
    const std::int64_t k = rows_.k;
    for (std::int64_t j = 0; j < k; ++j) {
      f(values_[j]).store(results[j]);
    }
    for (; done != 0; done &= done - 1) {
      const int i = __builtin_ctz(done);
#pragma GCC unroll 1
      for (std::int64_t j = 0; j < k; ++j) {
        y[i * stride + j] = results[j][i];
      }
    }
  }

  const topk_rows& rows_;
  V above_, below_;
  power_form<A, scaled> near_;
  std::int32_t column_mask_ = 2 * lanes - 1;  // covers the columns that fill up the last tile
  V sum_;
  keys best_[static_cast<unsigned>(entries)];
  V values_[static_cast<unsigned>(entries)] = {};
  std::int32_t columns_[static_cast<unsigned>(entries)][size] = {};
};

/// Rows of the call that are left undone, a bit for each.
template <class T, int entries, bool fold, bool scaled>
std::uint64_t topk_batches(const topk_rows& rows) {
  constexpr int lanes = vec<arithmetic_t<T>>::lanes;
  topk_batch<T, entries, fold, scaled> batch(rows);
  std::uint64_t undone = 0;
  for (std::int64_t r = 0; r < rows.rows; r += lanes) {
    const auto count = static_cast<int>(rows.rows - r < lanes ? rows.rows - r : lanes);
    undone |= std::uint64_t{batch.write(r, count)} << r;
  }
  return undone;
}

template <class T, int entries>
std::uint64_t topk_batches_of(const topk_rows& rows) {
  return !rows.fold        ? topk_batches<T, entries, false, false>(rows)
         : rows.scale == 1 ? topk_batches<T, entries, true, false>(rows)
                           : topk_batches<T, entries, true, true>(rows);
}

template <class T>
std::uint64_t topk_by_batches(const topk_rows& rows) {
  return rows.k <= 5 ? topk_batches_of<T, 6>(rows) : topk_batches_of<T, 9>(rows);
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
