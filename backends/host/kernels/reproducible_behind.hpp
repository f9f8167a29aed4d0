// SPDX-License-Identifier: Apache-2.0
/// \file
/// Softmax of reproducible rows, many in a kernel call, each stored while the next one is folded:
/// the processor finds the numbers of a row while it folds on.
#pragma once

#include <backends/host/kernels/reproducible.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// Probabilities of kept terms whose power is part of the numbers.
struct probability_of_held_term {
  vec<float> high, low;
  SOFTFOLD_INLINE vec<float> operator()(vec<float> term) const {
    return fused(term, high, term * low);
  }
};

template <class T, class Out, bool scaled, bool past_caches>
class reproducible_rows_behind {
  using V = vec<float>;
  using row_fold = reproducible_fold<T, scaled, true, may_stay_out<T> && past_caches>;
  static constexpr auto most_columns =
      static_cast<unsigned>(short_reproducible_softmax_vectors * V::lanes);
  /// While the row's numbers are still to be found there is a fold to go on with, and when its last
  /// ones are stored the next row's are.
  static constexpr std::int64_t lag = 12 * V::lanes;
  /// Loads that are a lag behind stores had to wait for them if addresses agreed in all but the
  /// page.
  static constexpr unsigned apart = 2048 / sizeof(float);

 public:
  explicit SOFTFOLD_INLINE reproducible_rows_behind(const short_rows& rows)
      : rows_(rows), scale_(static_cast<float>(rows.scale)) {}

  /// A bit for each row that is left.
  SOFTFOLD_INLINE std::uint64_t write() {
    std::uint64_t left = 0;
    bool is_before = false;
    for (std::int64_t r = 0; r < rows_.rows; ++r) {
      if (is_before) {
        const scaling_beside<T, Out, probability_of_held_term, past_caches> other(
            x(r), kept_[(r - 1) % 2], rows_.cols, y(r - 1), {V(high_), V(low_)}, lag);
        is_before = fold(r, other);
      } else {
        is_before = fold_alone(r);
      }
      left |= is_before ? 0 : std::uint64_t{1} << r;
    }
    if (is_before) {
      const std::int64_t last = rows_.rows - 1;
      map_elements(kept_[last % 2], rows_.cols, y(last), past_caches,
                   probability_of_held_term{V(high_), V(low_)});
    }
    return left;
  }

 private:
  [[nodiscard]] SOFTFOLD_INLINE const T* x(std::int64_t r) const {
    return static_cast<const T*>(rows_.x) + r * rows_.x_stride;
  }
  [[nodiscard]] SOFTFOLD_INLINE Out* y(std::int64_t r) const {
    return static_cast<Out*>(rows_.y) + r * rows_.y_stride;
  }

  __attribute__((noinline)) bool fold_alone(std::int64_t r) { return fold(r, nothing_beside{}); }

  /// Whether the row's numbers are found.
  template <class Beside>
  SOFTFOLD_INLINE bool fold(std::int64_t r, const Beside& beside) {
    row_fold fold(scale_, kept_[r % 2]);
    if (!fold.take(x(r), rows_.cols, beside)) {
      return false;
    }
    return fold.has_one_anchor() ? find(fold) : fold_again(r, fold.largest());
  }

  /// With all terms relative to the anchor that the row has in the end.
  __attribute__((noinline)) bool fold_again(std::int64_t r, float largest) {
    row_fold fold(scale_, kept_[r % 2]);
    return fold.expect(largest) && fold.take(x(r), rows_.cols, nothing_beside{}) && find(fold);
  }

  SOFTFOLD_INLINE bool find(const row_fold& fold) {
    if (!fold.is_close()) [[unlikely]] {
      return find_by_words(fold);
    }
    using format = definition::format<float>;
    const float z = scaled ? fold.largest() * scale_ : fold.largest();
    const float n = definition::fused(z, format::log2_e, format::magic) - format::magic;
    const double below = 32.0 * fold.anchor() - static_cast<double>(n);
    const double inverse = 1 / (fold.total() * power_of_two(below - format::raised)) * 0x1p-64;
    const auto high = static_cast<float>(inverse);
    return z > -definition::far_from<float> && set(below, high, static_cast<float>(inverse - high));
  }

  __attribute__((noinline)) bool find_by_words(const row_fold& fold) {
    reproducible_part part;
    if (!fold.finish(part)) {
      return false;
    }
    definition::row_total<float> total;
    reproducible_total<float>(&part, 1, rows_.scale, &total);
    return total.kind == definition::row_kind::ordinary && !total.exponents.is_far &&
           set(32.0 * part.anchor - static_cast<double>(total.n), total.high, total.low);
  }

  /// Of a row whose largest element is so many powers below its anchor. Products with the numbers
  /// are those with a term's power in them if that makes no number subnormal.
  SOFTFOLD_INLINE bool set(double below, float high, float low) {
    constexpr int spare =
        definition::row_total<float>::spare_power - definition::format<float>::raised;
    const auto power = static_cast<float>(power_of_two(below + spare));
    high_ = high * power;
    low_ = low * power;
    return static_cast<double>(high_) == static_cast<double>(high) * static_cast<double>(power) &&
           static_cast<double>(low_) == static_cast<double>(low) * static_cast<double>(power);
  }

  const short_rows& rows_;
  float scale_;
  float high_ = 0;
  float low_ = 0;
  alignas(64) float kept_[2][most_columns + apart];
};

template <class T, class Out, bool scaled>
std::uint64_t reproducible_rows_behind_of(const short_rows& rows) {
  return rows.stream ? reproducible_rows_behind<T, Out, scaled, true>(rows).write()
                     : reproducible_rows_behind<T, Out, scaled, false>(rows).write();
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
