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

/// core::sampling::natural_log of each.
SOFTFOLD_INLINE vec<double> natural_logs(vec<double> x) {
  using V = vec<double>;
  using constants = core::exponential<double>;
  V f;
  const V n = exponent_of(x, f);
  V t;
  t.v = (f - V(1.0)).v / (f + V(1.0)).v;
  const V square = t * t;
  V p(2.0 / 21);
#pragma GCC unroll 10
  for (int c = 19; c >= 3; c -= 2) {
    p = fused(p, square, V(2.0 / c));
  }
  p = fused(p, square, V(2.0));
  const V low = fused(n, V(constants::ln2_low), V(0.0));
  return fused(n, V(constants::ln2_high), fused(t, p, low));
}

template <class T, class Out, short_result result, bool scaled>
class reproducible_short_rows {
  using V = vec<float>;
  using D = vec<double>;
  static constexpr auto at_once = static_cast<unsigned>(V::lanes);
  static constexpr auto half = static_cast<unsigned>(D::lanes);
  static constexpr std::int64_t block_columns = block_vectors * V::lanes;
  static constexpr bool keeps = result == short_result::softmax;
  static constexpr std::int64_t kept_terms = at_once * short_row_vectors * V::lanes;
  static constexpr auto most_sums =
      static_cast<unsigned>(short_reproducible_sum_vectors / block_vectors * V::lanes);

 public:
  explicit SOFTFOLD_INLINE reproducible_short_rows(const short_rows& rows)
      : rows_(rows),
        scale_(static_cast<float>(rows.scale)),
        highest_(highest_element<float, scaled>(0, static_cast<float>(rows.scale))),
        lowest_(highest_element<float, scaled>(-1, static_cast<float>(rows.scale))),
        of_(static_cast<float>(rows.scale), 0, held_exponent<float>),
        kept_columns_((rows.cols + block_columns - 1) / block_columns * block_columns) {}

  /// Rows at once.
  static constexpr std::int64_t step = V::lanes;

  /// A bit for each of the `step` rows from `first` on that is left.
  SOFTFOLD_INLINE unsigned write(std::int64_t first) {
    const int count = static_cast<int>(std::min(rows_.rows - first, step));
    unsigned done = 0;
    for (int i = 0; i < count; ++i) {
      done |= fold(row(first + i), static_cast<unsigned>(i)) ? 1U << i : 0U;
    }
    for (auto i = static_cast<unsigned>(count); i < at_once; ++i) {  // lanes without a row
      best_[i] = V(0.0F);
      totals_[i] = D(1.0);
    }
    find_numbers();
    for (unsigned to_write = done; to_write != 0; to_write &= to_write - 1) {
      const auto i = static_cast<unsigned>(__builtin_ctz(to_write));
      write_row(first + i, i);
    }
    return ~done & ((1U << count) - 1U);
  }

 private:
  [[nodiscard]] SOFTFOLD_INLINE const T* row(std::int64_t r) const {
    return static_cast<const T*>(rows_.x) + r * rows_.x_stride;
  }

  /// Whether it is such a row.
  SOFTFOLD_INLINE bool fold(const T* x, unsigned number) {
    const std::int64_t n = rows_.cols;
    V best(-infinity<float>);
    close_sums<float> close;
    alignas(64) float stored[most_sums];
    float* to = stored;
    for (std::int64_t begin = 0; begin < n; begin += block_columns) {
      V v[block_vectors];
#pragma GCC unroll 8
      for (V& one : v) {
        one = V(0.0F);  // no term
      }
      constexpr int half_block = block_vectors / 2;
      if (n <= V::lanes) {
        take<1>(x, begin, number, v, best);
      } else {
        take<half_block>(x, begin, number, v, best);
        if (begin + half_block * V::lanes < n) {
          take<half_block>(x, begin + half_block * V::lanes, number, v + half_block, best);
        }
      }
      const V sums = sums_of_packets(v);
      sums.store(to);
      close.add(sums, to);
      to += V::lanes;
    }
    best_[number] = best;
    totals_[number] = close.total();
    if (V::bits(greater(best, highest_)) != 0 || V::bits(greater(best, lowest_)) == 0) {
      return false;
    }
    return close.are_close(n) ||
           total_of_words(stored, static_cast<int>((to - stored) / V::lanes), totals_[number]);
  }

  /// The total of sums that are not close, in the units of terms that are held. False if there is a
  /// NaN.
  static __attribute__((noinline)) bool total_of_words(const float* sums, int count, D& total) {
    reproducible_part part;
    if (!place_words<key_vector, V>::add(sums, count, part)) {
      return false;
    }
    constexpr double unit = 0x1p65;
    static_assert(definition::format<float>::raised == 65);
    alignas(64) double lanes[half] = {sum_of_part<float>(part).over(0) * unit};
    total = D::load(lanes);
    return true;
  }

  /// The terms of so many vectors from a column on.
  template <unsigned count>
  SOFTFOLD_INLINE void take(const T* x, std::int64_t column, unsigned number, V* v, V& best) {
    V terms[count];
#pragma GCC unroll 4
    for (unsigned k = 0; k < count; ++k) {
      const std::int64_t at = column + static_cast<int>(k) * V::lanes;
      const std::int64_t rest = rows_.cols - at;
      prefetch_ahead(x + at);
      terms[k] = rest >= V::lanes ? V::load(x + at)
                 : rest > 0       ? V::load(x + at, static_cast<int>(rest), V(-infinity<float>))
                                  : V(-infinity<float>);
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

  /// What core::reproducible::row_total finds of each row.
  SOFTFOLD_INLINE void find_numbers() {
    using format = definition::format<float>;
    const V largest = across(best_, [](V a, V b) { return max(a, b); });
    const V z = scaled ? largest * scale_ : largest;
    const V lost = scaled ? product_error(largest, scale_, z) : V(0.0F);
    const V n = fused(z, V(format::log2_e), V(format::magic)) - V(format::magic);
    // A kept term is p 2^(n - raised), and wanted as p 2^(n - n of the largest + spare_power).
    constexpr int power = definition::row_total<float>::spare_power - format::raised;
    power_of_low_bits(V(format::magic + static_cast<float>(definition::bias_of<float> + power)) - n)
        .store(powers_);
    alignas(64) float n_of[at_once];
    n.store(n_of);
    D whole[2];
#pragma GCC unroll 2
    for (unsigned h = 0; h < 2; ++h) {
      D totals[half];
#pragma GCC unroll 8
      for (unsigned i = 0; i < half; ++i) {
        totals[i] = totals_[h * half + i];
      }
      constexpr double bias = 1023 - format::raised;
      whole[h] =
          across(totals, [](D a, D b) { return a + b; }) *
          power_of_low_bits(D(definition::format<double>::magic + bias) - D::load(n_of + h * half));
    }
    if constexpr (keeps) {
#pragma GCC unroll 2
      for (unsigned h = 0; h < 2; ++h) {
        D inverse;
        inverse.v = D(1.0).v / whole[h].v;
        store_in_two(inverse * D(0x1p-64), h * half);
      }
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
        store_in_two((D::load(z_of + first) + D::load(lost_of + first)) + natural_logs(ratio),
                     first);
      }
    }
  }
  /// As a number of f32 and what it lacks.
  SOFTFOLD_INLINE void store_in_two(D x, unsigned first) {
    typedef float floats __attribute__((vector_size(4 * vec<double>::lanes)));
    const auto upper = __builtin_convertvector(x.v, floats);
    D back;
    back.v = __builtin_convertvector(upper, decltype(back.v));
    const auto rest = __builtin_convertvector((x - back).v, floats);
    __builtin_memcpy(high_ + first, &upper, sizeof upper);
    __builtin_memcpy(low_ + first, &rest, sizeof rest);
  }

  SOFTFOLD_INLINE void write_row(std::int64_t r, unsigned i) const {
    Out* const y = static_cast<Out*>(rows_.y) + r * rows_.y_stride;
    if constexpr (result == short_result::logsumexp) {
      *y = high_[i];
    } else if (rows_.stream) {
      write_past_caches(row(r), i, y);
    } else {
      write_to(row(r), i, {y});
    }
  }
  /// Apart: it would take registers from the usual way.
  __attribute__((noinline)) void write_past_caches(const T* x, unsigned i, Out* y) const {
    write_to(x, i, {y, true});
  }
  SOFTFOLD_INLINE void write_to(const T* x, unsigned i, destination y) const {
    if constexpr (keeps) {
      const reproducible_scaling scaling = {.power = powers_[i], .high = high_[i], .low = low_[i]};
      reproducible_output<T, Out>::scaled(kept_ + i * kept_columns_, rows_.cols, &scaling, y);
    } else {
      const reproducible_row known = {
          .scale = rows_.scale, .log_high = high_[i], .log_low = low_[i]};
      reproducible_output<T, Out>::log_softmax(x, rows_.cols, &known, y);
    }
  }

  const short_rows& rows_;
  V scale_, highest_, lowest_;
  reproducible_terms<float, scaled> of_;
  V best_[at_once];
  D totals_[at_once];  ///< whose lanes add up to a row's
  alignas(64) float powers_[at_once];
  /// 1 over the sum, or its logarithm.
  alignas(64) float high_[at_once];
  alignas(64) float low_[at_once];
  std::int64_t kept_columns_;
  alignas(64) float kept_[keeps ? kept_terms : 1];
};

template <class T, class Out, short_result result, bool scaled>
std::uint64_t reproducible_short_rows_of(const short_rows& rows) {
  using writer_type = reproducible_short_rows<T, Out, result, scaled>;
  if constexpr (result == short_result::softmax) {
    if (rows.cols > short_row_vectors * vec<float>::lanes) {
      return reproducible_rows_behind_of<T, Out, scaled>(rows);
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
