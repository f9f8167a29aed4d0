// SPDX-License-Identifier: Apache-2.0
/// \file
/// Softmax and log-softmax of reproducible rows, many in a kernel call, each stored while the next
/// one is folded: the processor finds the numbers of a row while it folds on.
#pragma once

#include <backends/host/kernels/reproducible.hpp>

#include <type_traits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

template <class T, class Out, bool log, bool scaled, bool past_caches>
class reproducible_rows_behind {
  using V = vec<float>;
  using row_fold = reproducible_fold<T, scaled, !log, !log && may_stay_out<T> && past_caches>;
  /// What a result is computed from: a kept term, or the element.
  using known = std::conditional_t<log, T, float>;
  using result =
      std::conditional_t<log, log_probability<float, scaled>, probability_of_held_term<float>>;
  /// Terms may be kept where they become results, unless those leave the caches.
  static constexpr bool may_keep_in_output = !log && !past_caches && std::is_same_v<Out, float>;
  /// While the row's numbers are still to be found there is a fold to go on with, and when its last
  /// ones are stored the next row's are.
  static constexpr std::int64_t lag = 12 * V::lanes;
  /// Loads that are a lag behind stores had to wait for them if addresses agreed in all but the
  /// page.
  static constexpr unsigned apart = 2048 / sizeof(float);

 public:
  explicit SOFTFOLD_INLINE reproducible_rows_behind(const short_rows& rows)
      : rows_(rows), scale_(static_cast<float>(rows.scale)), in_output_(rows.x != rows.y) {}

  /// A bit for each row that is left.
  SOFTFOLD_INLINE std::uint64_t write() {
    std::uint64_t left = 0;
    bool is_before = false;
    for (std::int64_t r = 0; r < rows_.rows; ++r) {
      if (is_before) {
        const scaling_beside<T, Out, result, past_caches, known> other(
            x(r), known_of(r - 1), rows_.cols, y(r - 1), result_of_numbers(), lag);
        is_before = fold(r, other);
      } else {
        is_before = fold_alone(r);
      }
      left |= is_before ? 0 : std::uint64_t{1} << r;
    }
    if (is_before) {
      const std::int64_t last = rows_.rows - 1;
      map_elements(known_of(last), rows_.cols, y(last), past_caches, result_of_numbers());
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
  [[nodiscard]] SOFTFOLD_INLINE float* kept(std::int64_t r) {
    if constexpr (log) {
      return nullptr;
    } else if constexpr (may_keep_in_output) {
      return in_output_ ? y(r) : kept_[r % 2];
    } else {
      return kept_[r % 2];
    }
  }
  [[nodiscard]] SOFTFOLD_INLINE const known* known_of(std::int64_t r) {
    if constexpr (log) {
      return x(r);
    } else {
      return kept(r);
    }
  }
  [[nodiscard]] SOFTFOLD_INLINE result result_of_numbers() const {
    if constexpr (log) {
      return {scale_, high_, low_};
    } else {
      return {high_, low_};
    }
  }

  __attribute__((noinline)) bool fold_alone(std::int64_t r) { return fold(r, nothing_beside{}); }

  /// Whether the row's numbers are found.
  template <class Beside>
  SOFTFOLD_INLINE bool fold(std::int64_t r, const Beside& beside) {
    row_fold fold(scale_, kept(r));
    if (!fold.take(x(r), rows_.cols, beside)) {
      return false;
    }
    return log || fold.has_one_anchor() ? find(fold) : fold_again(r, fold.largest());
  }

  /// With all terms relative to the anchor that the row has in the end.
  __attribute__((noinline)) bool fold_again(std::int64_t r, float largest) {
    row_fold fold(scale_, kept(r));
    return fold.expect(largest) && fold.take(x(r), rows_.cols, nothing_beside{}) && find(fold);
  }

  SOFTFOLD_INLINE bool find(const row_fold& fold) {
    if (!fold.is_close()) [[unlikely]] {
      return find_by_words(fold);
    }
    using format = definition::format<float>;
    const float largest = fold.largest();
    const float z = scaled ? largest * scale_ : largest;
    const float n = definition::fused(z, format::log2_e, format::magic) - format::magic;
    const double below = 32.0 * fold.anchor() - static_cast<double>(n);
    const double whole = fold.total() * power_of_two(below - format::raised);
    if (!(z > -definition::far_from<float>)) {
      return false;
    }
    if constexpr (log) {
      const float lost = scaled ? definition::fused(largest, scale_, -z) : 0.0F;
      const float p = definition::polynomial(definition::fused(n, -format::ln2, z) + lost);
      const double sum = (static_cast<double>(z) + static_cast<double>(lost)) +
                         core::sampling::natural_log_with(whole / static_cast<double>(p), 0);
      high_ = static_cast<float>(sum);
      low_ = static_cast<float>(sum - high_);
      return true;
    } else {
      const double inverse = 1 / whole * 0x1p-64;
      const auto high = static_cast<float>(inverse);
      return set(below, high, static_cast<float>(inverse - high));
    }
  }

  __attribute__((noinline)) bool find_by_words(const row_fold& fold) {
    reproducible_part part;
    if (!fold.finish(part)) {
      return false;
    }
    definition::row_total<float> total;
    reproducible_total<float>(&part, 1, rows_.scale, &total);
    if (total.kind != definition::row_kind::ordinary || total.exponents.is_far) {
      return false;
    }
    if constexpr (log) {
      high_ = total.log_high;
      low_ = total.log_low;
      return true;
    } else {
      return set(32.0 * part.anchor - static_cast<double>(total.n), total.high, total.low);
    }
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
  bool in_output_;
  float high_ = 0;  ///< of probability_of_held_term or log_probability
  float low_ = 0;
  alignas(64) float kept_[2][log ? 1 : short_reproducible_columns + apart];
};

template <class T, class Out, bool log, bool scaled>
std::uint64_t reproducible_rows_behind_of(const short_rows& rows) {
  return rows.stream ? reproducible_rows_behind<T, Out, log, scaled, true>(rows).write()
                     : reproducible_rows_behind<T, Out, log, scaled, false>(rows).write();
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
