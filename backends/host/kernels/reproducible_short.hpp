// SPDX-License-Identifier: Apache-2.0
/// \file
/// Reproducible rows that kernels/table.hpp calls short, as many at a time as a vector has lanes:
/// what a row's sum becomes is computed for all of them at once, a lane for each. Softmax's longer
/// ones are kernels/reproducible_behind.hpp's.
///
/// Only rows near zero, whose anchor is 0; the others are left to the caller.
#pragma once

#include <backends/host/kernels/lanes.hpp>
#include <backends/host/kernels/reproducible.hpp>
#include <backends/host/kernels/reproducible_behind.hpp>
#include <backends/host/kernels/short_rows.hpp>
#include <backends/host/kernels/vector_logarithm.hpp>

#include <algorithm>
#include <type_traits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

template <class T, class Out, short_result result, bool scaled>
class reproducible_short_rows {
  using V = vec<float>;
  using D = vec<double>;
  using close = close_sums<float>;
  using words = float_words<float>::type;
  static constexpr auto at_once = static_cast<unsigned>(V::lanes);
  static constexpr auto half = static_cast<unsigned>(D::lanes);
  static constexpr std::int64_t block_columns = block_vectors * V::lanes;
  static constexpr bool keeps = result == short_result::softmax;
  static constexpr std::int64_t kept_terms = at_once * short_row_vectors * V::lanes;
  static constexpr auto most_sums =
      static_cast<unsigned>(short_reproducible_columns / definition::packet_columns);
  /// Columns of rows of which a block has several.
  static constexpr std::int64_t narrow_columns = block_columns / 2;
  static constexpr std::int64_t least_columns = 2 * definition::packet_columns;

 public:
  explicit SOFTFOLD_INLINE reproducible_short_rows(const short_rows& rows)
      : rows_(rows),
        scale_(static_cast<float>(rows.scale)),
        highest_(highest_element<float, scaled>(0, static_cast<float>(rows.scale))),
        lowest_(highest_element<float, scaled>(-1, static_cast<float>(rows.scale))),
        of_(static_cast<float>(rows.scale), 0, held_exponent<float>),
        kept_columns_(columns_kept(rows.cols)) {}

  /// Rows at once.
  static constexpr std::int64_t step = V::lanes;

  /// A bit for each of the `step` rows from `first` on that is left.
  SOFTFOLD_INLINE unsigned write(std::int64_t first) {
    const int count = static_cast<int>(std::min(rows_.rows - first, step));
    const unsigned all = (1U << count) - 1U;
    unsigned close_rows;
    if (rows_.cols <= narrow_columns) {
      close_rows = fold_narrow(first, count);
    } else {
      words highest[at_once];
      words lowest[at_once];
      for (int i = 0; i < count; ++i) {
        const auto number = static_cast<unsigned>(i);
        const close sums = fold(row(first + i), number);
        totals_[number] = sums.total();
        highest[number] = sums.highest_of_lanes();
        lowest[number] = sums.lowest_of_lanes();
      }
      for (auto i = static_cast<unsigned>(count); i < at_once; ++i) {  // lanes without a row
        best_[i] = V(0.0F);
        totals_[i] = D(1.0);
        highest[i] = words{};
        lowest[i] = words{};
      }
      bring_totals_together();
      close_rows = are_close(highest, lowest);
    }
    const V largest = across(best_, [](V a, V b) { return max(a, b); });
    unsigned done = all & ~V::bits(greater(largest, highest_)) & V::bits(greater(largest, lowest_));
    for (unsigned far = done & ~close_rows; far != 0; far &= far - 1) {
      const auto i = static_cast<unsigned>(__builtin_ctz(far));
      done &= ~(find_total_by_words(row(first + i), i) ? 0U : 1U << i);
    }
    find_numbers(largest);
    if constexpr (keeps) {
      if (rows_.cols <= 4 * V::lanes && done == all && powers_are_in_) [[likely]] {
        write_few_vectors(first, count);
        return 0;
      }
    }
    for (unsigned to_write = done; to_write != 0; to_write &= to_write - 1) {
      const auto i = static_cast<unsigned>(__builtin_ctz(to_write));
      write_row(first + i, i);
    }
    return ~done & all;
  }

 private:
  /// A row's columns rounded up to what is computed for it.
  static SOFTFOLD_INLINE std::int64_t columns_kept(std::int64_t cols) {
    if (cols > narrow_columns) {
      return (cols + block_columns - 1) / block_columns * block_columns;
    }
    std::int64_t columns = least_columns;
    while (columns < cols) {
      columns *= 2;
    }
    return columns;
  }
  [[nodiscard]] SOFTFOLD_INLINE const T* row(std::int64_t r) const {
    return static_cast<const T*>(rows_.x) + r * rows_.x_stride;
  }

  /// Rows of which a block has several, by their packets, of which there are a power of two. A bit
  /// for each whose sums are close.
  template <int row_packets = least_columns / definition::packet_columns>
  SOFTFOLD_INLINE unsigned fold_narrow(std::int64_t first, int count) {
    if constexpr (row_packets * definition::packet_columns < narrow_columns) {
      if (kept_columns_ > row_packets * definition::packet_columns) {
        return fold_narrow<2 * row_packets>(first, count);
      }
    }
    return fold_packets<row_packets>(first, count);
  }
  /// Of so many packets, as many rows in a block as have room: lanes of its sums are rows, for each
  /// of the packets.
  template <int row_packets>
  SOFTFOLD_INLINE unsigned fold_packets(std::int64_t first, int count) {
    constexpr int columns = row_packets * definition::packet_columns;
    constexpr int vectors = columns / V::lanes;
    constexpr int block_rows = block_vectors / vectors;
    constexpr auto blocks = static_cast<unsigned>(row_packets);
    static_assert(row_packets * block_rows == V::lanes);
    V sums[blocks];
    for (unsigned block = 0; block < blocks; ++block) {
      V v[block_vectors];
      constexpr int half_block = block_vectors / 2;
#pragma GCC unroll 2
      for (int begin = 0; begin < block_vectors; begin += half_block) {
        V terms[static_cast<unsigned>(half_block)];
        unsigned number[static_cast<unsigned>(half_block)];
#pragma GCC unroll 4
        for (int j = 0; j < half_block; ++j) {
          // So that the tree leaves rows in their order.
          const int k = begin + j;
          const int in_block = vectors == 1 ? k / 2 + k % 2 * (block_rows / 2) : k / vectors;
          const std::int64_t at = k % vectors * V::lanes;
          const int row_of_all = static_cast<int>(block) * block_rows + in_block;
          number[j] = static_cast<unsigned>(row_of_all);
          terms[j] = load(row(first + std::min(row_of_all, count - 1)), at);
          best_[number[j]] = at == 0 ? terms[j] : max(terms[j], best_[number[j]]);
          terms[j] = of_.clamped(terms[j]);
        }
        of_.replace(terms);
#pragma GCC unroll 4
        for (int j = 0; j < half_block; ++j) {
          v[begin + j] = terms[j];
          if constexpr (keeps) {
            terms[j].store(kept_ + number[j] * columns + (begin + j) % vectors * V::lanes);
          }
        }
      }
      sums[block] = sums_of_packets(v);
    }
    bring_packets_together(sums);
    alignas(64) float stored[blocks][at_once];
    words highest{};
    words lowest = ~highest;
#pragma GCC unroll 8
    for (unsigned p = 0; p < blocks; ++p) {
      sums[p].store(stored[p]);
      const words own = reinterpret_cast<words>(sums[p].v);
      highest = own > highest ? own : highest;
      lowest = own - 1U < lowest ? own - 1U : lowest;
    }
#pragma GCC unroll 2
    for (unsigned h = 0; h < 2; ++h) {
      D total = D::load(stored[0] + h * half);
#pragma GCC unroll 7
      for (unsigned p = 1; p < blocks; ++p) {
        total = total + D::load(stored[p] + h * half);
      }
      total.store(whole_ + h * half);
    }
    return close::are_close(highest, lowest, columns);
  }

  SOFTFOLD_INLINE close fold(const T* x, unsigned number) {
    V best(-infinity<float>);
    const close sums = fold(x, number, best, nullptr);
    best_[number] = best;
    return sums;
  }
  /// `stored` gets the packets' sums, if it is anything.
  SOFTFOLD_INLINE close fold(const T* x, unsigned number, V& best, float* stored) {
    const std::int64_t n = rows_.cols;
    close sums_of_row;
    alignas(64) float here[at_once];
    for (std::int64_t begin = 0; begin < n; begin += block_columns) {
      V v[block_vectors];
#pragma GCC unroll 8
      for (V& one : v) {
        one = V(0.0F);  // no term
      }
      constexpr int half_block = block_vectors / 2;
      if (n <= V::lanes) {
        take<1>(x, begin, number, v, best);
      } else if (n <= 2 * V::lanes) {
        take<2>(x, begin, number, v, best);
      } else {
        take<half_block>(x, begin, number, v, best);
        if (begin + half_block * V::lanes < n) {
          take<half_block>(x, begin + half_block * V::lanes, number, v + half_block, best);
        }
      }
      const V sums = sums_of_packets(v);
      float* const to = stored == nullptr ? here : stored + begin / definition::packet_columns;
      sums.store(to);
      sums_of_row.add(sums, to);
    }
    return sums_of_row;
  }

  /// The total of sums that are not close. False if there is a NaN.
  __attribute__((noinline)) bool find_total_by_words(const T* x, unsigned number) {
    alignas(64) float sums[most_sums];
    V best(-infinity<float>);
    fold(x, number, best, sums);
    reproducible_part part;
    const auto count = static_cast<int>((rows_.cols + block_columns - 1) / block_columns);
    if (!place_words<key_vector, V>::add(sums, count, part)) {
      return false;
    }
    constexpr double unit = 0x1p65;
    static_assert(definition::format<float>::raised == 65);
    whole_[number] = sum_of_part<float>(part).over(0) * unit;
    return true;
  }

  /// Of a vector's columns, and -infinity.
  [[nodiscard]] SOFTFOLD_INLINE V load(const T* x, std::int64_t at) const {
    const std::int64_t rest = rows_.cols - at;
    prefetch_ahead(x + at);
    return rest >= V::lanes ? V::load(x + at)
           : rest > 0       ? V::load(x + at, static_cast<int>(rest), V(-infinity<float>))
                            : V(-infinity<float>);
  }
  /// The terms of so many vectors from a column on.
  template <unsigned count>
  SOFTFOLD_INLINE void take(const T* x, std::int64_t column, unsigned number, V* v, V& best) {
    V terms[count];
#pragma GCC unroll 4
    for (unsigned k = 0; k < count; ++k) {
      terms[k] = load(x, column + static_cast<int>(k) * V::lanes);
      best = max(terms[k], best);
      terms[k] = of_.clamped(terms[k]);
    }
    of_.replace(terms);
#pragma GCC unroll 4
    for (unsigned k = 0; k < count; ++k) {
      v[k] = terms[k];
      if constexpr (keeps) {
        terms[k].store(kept_ + number * kept_columns_ + column + static_cast<int>(k) * V::lanes);
      }
    }
  }

  SOFTFOLD_INLINE void bring_totals_together() {
#pragma GCC unroll 2
    for (unsigned h = 0; h < 2; ++h) {
      D totals[half];
#pragma GCC unroll 8
      for (unsigned i = 0; i < half; ++i) {
        totals[i] = totals_[h * half + i];
      }
      across(totals, [](D a, D b) { return a + b; }).store(whole_ + h * half);
    }
  }
  SOFTFOLD_INLINE unsigned are_close(const words (&highest)[at_once],
                                     const words (&lowest)[at_once]) const {
    V of_highest[at_once], of_lowest[at_once];
#pragma GCC unroll 16
    for (unsigned i = 0; i < at_once; ++i) {
      of_highest[i].v = reinterpret_cast<decltype(V::v)>(highest[i]);
      of_lowest[i].v = reinterpret_cast<decltype(V::v)>(lowest[i]);
    }
    const auto by_words = [](V a, V b, bool larger) {
      const words of_a = reinterpret_cast<words>(a.v);
      const words of_b = reinterpret_cast<words>(b.v);
      V r;
      r.v = reinterpret_cast<decltype(V::v)>(larger ? (of_a > of_b ? of_a : of_b)
                                                    : (of_a < of_b ? of_a : of_b));
      return r;
    };
    const V high = across(of_highest, [&](V a, V b) { return by_words(a, b, true); });
    const V low = across(of_lowest, [&](V a, V b) { return by_words(a, b, false); });
    return close::are_close(reinterpret_cast<words>(high.v), reinterpret_cast<words>(low.v),
                            rows_.cols);
  }

  /// What core::reproducible::row_total finds of each row.
  SOFTFOLD_INLINE void find_numbers(V largest) {
    using format = definition::format<float>;
    const V z = scaled ? largest * scale_ : largest;
    const V lost = scaled ? product_error(largest, scale_, z) : V(0.0F);
    const V n = fused(z, V(format::log2_e), V(format::magic)) - V(format::magic);
    alignas(64) float n_of[at_once];
    n.store(n_of);
    D whole[2];
#pragma GCC unroll 2
    for (unsigned h = 0; h < 2; ++h) {
      constexpr double bias = 1023 - format::raised;
      whole[h] =
          D::load(whole_ + h * half) *
          power_of_low_bits(D(definition::format<double>::magic + bias) - D::load(n_of + h * half));
    }
    if constexpr (result == short_result::softmax || result == short_result::totals) {
      const auto inverse = [&](int h) {
        D r;
        r.v = D(0x1p-64).v / whole[h].v;
        return in_two(r);
      };
      const in_two first = inverse(0);
      const in_two second = inverse(1);
      if constexpr (result == short_result::totals) {
        n.store(n_);
        in_two::joined(first.high, second.high).store(high_);
        in_two::joined(first.low, second.low).store(low_);
        return;
      }
      // A kept term is p 2^(n - raised), and wanted as p 2^(n - n of the largest + spare_power).
      constexpr int power = definition::row_total<float>::spare_power - format::raised;
      constexpr auto bias = static_cast<float>(definition::bias_of<float>);
      take_powers_in(in_two::joined(first.high, second.high), in_two::joined(first.low, second.low),
                     power_of_low_bits(V(format::magic + bias + power) - n),
                     power_of_low_bits(V(format::magic + bias - power) + n));
    } else {
      alignas(64) float z_of[at_once];
      alignas(64) float lost_of[at_once];
      alignas(64) float p_of[at_once];
      z.store(z_of);
      lost.store(lost_of);
      exponential_of_rest(fused(n, V(-format::ln2), z) + lost).store(p_of);
#pragma GCC unroll 2
      for (unsigned h = 0; h < 2; ++h) {
        const unsigned first = h * half;
        D ratio;
        ratio.v = whole[h].v / D::load(p_of + first).v;
        const in_two found((D::load(z_of + first) + D::load(lost_of + first)) +
                           natural_logs(ratio));
        __builtin_memcpy(high_ + first, &found.high, sizeof found.high);
        __builtin_memcpy(low_ + first, &found.low, sizeof found.low);
      }
    }
  }
  /// As a number of f32 and what it lacks: half of the lanes of each.
  struct in_two {
    typedef float floats __attribute__((vector_size(4 * vec<double>::lanes)));
    floats high, low;
    explicit SOFTFOLD_INLINE in_two(D x) {
      high = __builtin_convertvector(x.v, floats);
      D back;
      back.v = __builtin_convertvector(high, decltype(back.v));
      low = __builtin_convertvector((x - back).v, floats);
    }
    /// In registers: a load of what two stores wrote would wait for both.
    template <class Half>
    static SOFTFOLD_INLINE V joined(const Half& a, const Half& b) {
      V r;
      if constexpr (sizeof(Half) == 32) {
        r.v = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      } else {
        r.v = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
      }
      return r;
    }
  };
  /// The numbers with their powers, of rows of which that makes none subnormal. `back` undoes it.
  SOFTFOLD_INLINE void take_powers_in(V high, V low, V powers, V back) {
    const V high_with = high * powers;
    const V low_with = low * powers;
    const auto exact_high = equal(high_with * back, high);
    const auto exact_low = equal(low_with * back, low);
    const auto if_exact = [&](V with, V without) {
      return V::select(exact_high, V::select(exact_low, with, without), without);
    };
    if_exact(high_with, high).store(high_);
    if_exact(low_with, low).store(low_);
    const V left = if_exact(V(1.0F), powers);
    left.store(powers_);
    powers_are_in_ = V::bits(equal(left, V(1.0F))) == (1U << V::lanes) - 1U;
  }

  /// Rows of a few vectors, whose numbers have their powers.
  SOFTFOLD_INLINE void write_few_vectors(std::int64_t first, int count) const {
    Out* y = static_cast<Out*>(rows_.y) + first * rows_.y_stride;
    const float* terms = kept_;
    const std::int64_t whole = rows_.cols / V::lanes * V::lanes;
    const auto rest = static_cast<int>(rows_.cols - whole);
    for (int i = 0; i < count; ++i) {
      const probability_of_held_term<float> probability(high_[i], low_[i]);
      for (std::int64_t c = 0; c < whole; c += V::lanes) {
        probability(V::load(terms + c)).store(y + c);
      }
      if (rest != 0) {
        probability(V::load(terms + whole)).store(y + whole, rest);
      }
      terms += kept_columns_;
      y += rows_.y_stride;
    }
  }

  SOFTFOLD_INLINE void write_row(std::int64_t r, unsigned i) const {
    if constexpr (result == short_result::totals) {
      auto& total = static_cast<definition::row_total<float>*>(rows_.y)[r] = {};
      total.exponents.scale = static_cast<float>(rows_.scale);
      total.n = n_[i];
      total.high = high_[i];
      total.low = low_[i];
      return;
    }
    Out* const y = static_cast<Out*>(rows_.y) + r * rows_.y_stride;
    if constexpr (result == short_result::logsumexp) {
      *y = high_[i];
    } else if constexpr (keeps) {
      const float* const terms = kept_ + i * kept_columns_;
      if (powers_[i] == 1) [[likely]] {
        map_elements(terms, rows_.cols, y, false,
                     probability_of_held_term<float>(high_[i], low_[i]));
      } else {
        const reproducible_scaling scaling = {
            .power = powers_[i], .high = high_[i], .low = low_[i]};
        reproducible_output<T, Out>::scaled(terms, rows_.cols, &scaling, {y});
      }
    } else {
      // Eight rows later loads of x would wait for stores of which only the page is another.
      const auto bytes = rows_.cols * static_cast<std::int64_t>(sizeof(Out));
      const bool past_caches = V::lanes == 8 && rows_.stream && bytes % 64 == 0 &&
                               reinterpret_cast<std::uintptr_t>(y) % 64 == 0;
      map_elements(row(r), rows_.cols, y, past_caches,
                   log_probability<float, scaled>(scale_.first_lane(), high_[i], low_[i]));
    }
  }

  const short_rows& rows_;
  V scale_, highest_, lowest_;
  reproducible_terms<float, scaled> of_;
  V best_[at_once];
  D totals_[at_once];  ///< whose lanes add up to a row's
  alignas(64) double whole_[at_once];
  /// Of reproducible_scaling; 1 over the sum, or its logarithm.
  alignas(64) float powers_[at_once];
  alignas(64) float high_[at_once];
  alignas(64) float low_[at_once];
  alignas(64) float n_[result == short_result::totals ? at_once : 1];
  std::int64_t kept_columns_;
  bool powers_are_in_ = false;  ///< of all rows
  alignas(64) float kept_[keeps ? kept_terms : 1];
};

template <class T, class Out, short_result result, bool scaled>
std::uint64_t reproducible_short_rows_of(const short_rows& rows) {
  using writer_type = reproducible_short_rows<T, Out, result, scaled>;
  // Log-softmax of short rows, and to or from 16 bits, has enough to do without being stored along
  // with a fold (measured: docs/notes.md).
  constexpr bool log = result == short_result::log_softmax;
  constexpr bool behind = result == short_result::softmax ||
                          (log && sizeof(T) == sizeof(float) && sizeof(Out) == sizeof(float));
  constexpr int most_at_once = log ? 320 : short_row_vectors * vec<float>::lanes;
  if constexpr (behind) {
    if (rows.cols > most_at_once) {
      return reproducible_rows_behind_of<T, Out, log, scaled>(rows);
    }
  }
  writer_type writer(rows);
  std::uint64_t left = 0;
  for (std::int64_t r = 0; r < rows.rows; r += writer_type::step) {
    left |= std::uint64_t{writer.write(r)} << r;
  }
  return left;
}

/// Null where there is none: f64, and vectors of one 64-bit key.
template <class T, class Out, short_result result>
constexpr auto reproducible_short_kernel() -> std::uint64_t (*)(const short_rows*) {
  if constexpr (sizeof(arithmetic_t<T>) == 4 && !std::is_same_v<key_vector, std::uint64_t>) {
    return [](const short_rows* rows) {
      return rows->scale == 1 ? reproducible_short_rows_of<T, Out, result, false>(*rows)
                              : reproducible_short_rows_of<T, Out, result, true>(*rows);
    };
  } else {
    return nullptr;
  }
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
