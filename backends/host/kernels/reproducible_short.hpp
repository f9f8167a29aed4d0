// SPDX-License-Identifier: Apache-2.0
/// \file
/// Reproducible rows that kernels/table.hpp calls short, as many at a time as a vector
/// has lanes, or as have room for their terms in the first-level cache: what a row's digits become
/// is computed for all of them at once, a lane for each.
///
/// Only rows near zero, whose anchor is 0 and whose sums have digits of its place and the next one;
/// the others are left to the caller.
#pragma once

#include <backends/host/kernels/lanes.hpp>
#include <backends/host/kernels/reproducible.hpp>
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
  using words = float_words<float>::type;
  struct keys {
    static constexpr int lanes = D::lanes;
    key_vector v;
  };
  static constexpr auto at_once = static_cast<unsigned>(V::lanes);
  static constexpr auto half = static_cast<unsigned>(D::lanes);
  static constexpr std::int64_t block_columns = block_vectors * V::lanes;
  static constexpr bool keeps = result == short_result::softmax;
  /// Terms that are kept: of as many rows as there are lanes, or of at least four.
  static constexpr std::int64_t kept_terms =
      V::lanes * std::max(short_row_vectors * V::lanes, 4 * short_reproducible_row_vectors);
  /// A packet's digits in a word are below 2^55, and so many packets' below 2^64.
  static_assert(short_reproducible_sum_vectors * V::lanes <= 512 * 8);

 public:
  explicit SOFTFOLD_INLINE reproducible_short_rows(const short_rows& rows)
      : rows_(rows),
        scale_(static_cast<float>(rows.scale)),
        highest_(highest_element<float, scaled>(0, static_cast<float>(rows.scale))),
        lowest_(highest_element<float, scaled>(-1, static_cast<float>(rows.scale))),
        of_(static_cast<float>(rows.scale), 0, held_exponent<float>, depth_of_terms<float>),
        kept_columns_((rows.cols + block_columns - 1) / block_columns * block_columns) {}

  /// Rows at once.
  [[nodiscard]] SOFTFOLD_INLINE std::int64_t step() const {
    const std::int64_t room = kept_terms / kept_columns_;
    return keeps && room < V::lanes ? room : V::lanes;
  }

  /// A bit for each of the step() rows from `first` on that is left.
  SOFTFOLD_INLINE unsigned write(std::int64_t first) {
    const std::int64_t rest = rows_.rows - first;
    const int count = static_cast<int>(rest < step() ? rest : step());
    unsigned done = 0;
    for (int i = 0; i < count; ++i) {
      done |= fold(row(first + i), static_cast<unsigned>(i)) ? 1U << i : 0U;
    }
    for (auto i = static_cast<unsigned>(count); i < at_once; ++i) {  // lanes without a row
      best_[i] = V(0.0F);
      upper_[i].v = lower_[i].v = key_vector{} + 1U;
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
    const key_vector upper_end = key_vector{} + 32U * 6U;
    V best(-infinity<float>);
    key_vector upper{};
    key_vector lower{};
    words extraordinary{};
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
      add_digits_of(sums, upper_end, upper, lower);
      const words bits = reinterpret_cast<words>(sums.v);
      extraordinary |= (bits >= 0x70000000U) | (bits - 0x30000000U < 0x20000000U);
    }
    best_[number] = best;
    upper_[number].v = upper;
    lower_[number].v = lower - (upper << 32);
    V other;
    other.v = reinterpret_cast<decltype(other.v)>(extraordinary & 0x3f800000U);
    return V::bits(greater(best, highest_)) == 0 && V::bits(greater(best, lowest_)) != 0 &&
           V::bits(greater(other, V(0.0F))) == 0;
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
    const V p = exponential_of_rest(fused(n, V(-format::ln2), z) + lost);
    // A kept term is p 2^(n - raised), and wanted as p 2^(n - n of the largest + spare_power).
    constexpr int power = definition::row_total<float>::spare_power - format::raised;
    power_of_low_bits(V(format::magic + static_cast<float>(definition::bias_of<float> + power)) - n)
        .store(powers_);
    alignas(64) float z_of[at_once];
    alignas(64) float lost_of[at_once];
    alignas(64) float n_of[at_once];
    alignas(64) float p_of[at_once];
    z.store(z_of);
    lost.store(lost_of);
    n.store(n_of);
    p.store(p_of);
#pragma GCC unroll 2
    for (unsigned h = 0; h < 2; ++h) {
      const unsigned first = h * half;
      const auto sum = [](keys a, keys b) { return keys{a.v + b.v}; };
      D upper, lower;
      upper.v = __builtin_convertvector(across_from(upper_ + first, sum).v, decltype(upper.v));
      lower.v = __builtin_convertvector(across_from(lower_ + first, sum).v, decltype(lower.v));
      constexpr double bias = 1023 - format::digits;
      const D scaling =
          power_of_low_bits(D(definition::format<double>::magic + bias) - D::load(n_of + first));
      const D whole = fused(lower, D(0x1p-32), upper) * scaling;
      D inverse, ratio;
      inverse.v = D(1.0).v / whole.v;
      inverse = inverse * D(0x1p-64);
      ratio.v = whole.v / D::load(p_of + first).v;
      const D log = (D::load(z_of + first) + D::load(lost_of + first)) + natural_logs(ratio);
      store_in_two(inverse, high_ + first, low_ + first);
      store_in_two(log, log_high_ + first, log_low_ + first);
    }
  }
  template <class F>
  static SOFTFOLD_INLINE keys across_from(const keys* rows, const F& f) {
    keys of[half];
#pragma GCC unroll 8
    for (unsigned i = 0; i < half; ++i) {
      of[i] = rows[i];
    }
    return across(of, f);
  }
  /// As a number of f32 and what it lacks.
  static SOFTFOLD_INLINE void store_in_two(D x, float* high, float* low) {
    typedef float floats __attribute__((vector_size(4 * vec<double>::lanes)));
    const auto upper = __builtin_convertvector(x.v, floats);
    D back;
    back.v = __builtin_convertvector(upper, decltype(back.v));
    const auto rest = __builtin_convertvector((x - back).v, floats);
    __builtin_memcpy(high, &upper, sizeof upper);
    __builtin_memcpy(low, &rest, sizeof rest);
  }

  SOFTFOLD_INLINE void write_row(std::int64_t r, unsigned i) const {
    Out* const y = static_cast<Out*>(rows_.y) + r * rows_.y_stride;
    if constexpr (result == short_result::logsumexp) {
      *y = log_high_[i];
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
          .scale = rows_.scale, .log_high = log_high_[i], .log_low = log_low_[i]};
      reproducible_output<T, Out>::log_softmax(x, rows_.cols, &known, y);
    }
  }

  const short_rows& rows_;
  V scale_, highest_, lowest_;
  reproducible_terms<float, scaled> of_;
  V best_[at_once];
  keys upper_[at_once];
  keys lower_[at_once];
  alignas(64) float powers_[at_once];
  alignas(64) float high_[at_once];
  alignas(64) float low_[at_once];
  alignas(64) float log_high_[at_once];
  alignas(64) float log_low_[at_once];
  std::int64_t kept_columns_;
  alignas(64) float kept_[keeps ? kept_terms : 1];
};

template <class T, class Out, short_result result, bool scaled>
std::uint64_t reproducible_short_rows_of(const short_rows& rows) {
  reproducible_short_rows<T, Out, result, scaled> writer(rows);
  std::uint64_t left = 0;
  for (std::int64_t r = 0; r < rows.rows; r += writer.step()) {
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
