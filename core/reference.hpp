// SPDX-License-Identifier: Apache-2.0
/// \file
/// The oracle: every operation on one row in wider arithmetic, written for the reader. Slow on
/// purpose; tests and the benchmark's checks compare with it.
///
/// A row is given as exact values of the wide type: double for f32, f16 and bf16 input, long
/// double for f64 input. The scale is rounded to the library's own arithmetic first (float for
/// the former), because that is the number the library multiplies with.
#pragma once

#include <softfold/softfold.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

namespace softfold::core::reference {

/// The type of the library's arithmetic on T, and the wider type of the oracle's.
template <element T>
using arithmetic_t = std::conditional_t<std::is_same_v<std::remove_cv_t<T>, double>, double, float>;
template <element T>
using wide_t = std::conditional_t<std::is_same_v<std::remove_cv_t<T>, double>, long double, double>;

/// An oracle no wider than what it judges judges nothing.
template <class Wide>
concept wide = std::is_same_v<Wide, double> ||
    (std::is_same_v<Wide, long double>&& std::numeric_limits<long double>::digits >= 64);

template <element T>
[[nodiscard]] constexpr wide_t<T> widen(T value) noexcept {
  return static_cast<wide_t<T>>(static_cast<arithmetic_t<T>>(value));
}

template <element T>
[[nodiscard]] std::vector<wide_t<T>> widen(std::span<const T> row) {
  std::vector<wide_t<T>> values(row.size());
  std::transform(row.begin(), row.end(), values.begin(), [](T x) { return widen(x); });
  return values;
}

/// The scale as the library uses it.
template <wide Wide>
[[nodiscard]] Wide effective_scale(double scale) noexcept {
  if constexpr (std::is_same_v<Wide, double>) {
    return static_cast<double>(static_cast<float>(scale));
  } else {
    return static_cast<Wide>(scale);
  }
}

/// Neumaier's sum: as accurate as twice the precision, so that the length of a row does not show.
template <wide Wide>
class compensated_sum {
 public:
  void add(Wide term) noexcept {
    const Wide next = sum_ + term;
    rest_ += std::abs(sum_) >= std::abs(term) ? (sum_ - next) + term : (term - next) + sum_;
    sum_ = next;
  }
  [[nodiscard]] Wide value() const noexcept { return sum_ + rest_; }

 private:
  Wide sum_ = 0;
  Wide rest_ = 0;
};

/// What decides a row's special cases.
enum class row_kind {
  finite,    ///< the largest scaled element is finite
  empty,     ///< no element, or -infinity only
  infinite,  ///< +infinity after scaling, no NaN
  nan,       ///< a NaN
};

/// A row's state, and the functions of one element that follow from it.
template <wide Wide>
struct row_state {
  row_kind kind = row_kind::empty;
  Wide scale = 1;
  Wide largest = 0;  ///< the unscaled element whose scaled value is the maximum
  Wide sum = 0;      ///< of exp(scaled - max)

  static constexpr Wide infinity = std::numeric_limits<Wide>::infinity();
  static constexpr Wide nan = std::numeric_limits<Wide>::quiet_NaN();

  /// scale * x; a zero scale makes every number 0 but keeps -infinity and NaN. A product that is
  /// past the range of the library's arithmetic is infinite, as it is there.
  [[nodiscard]] Wide scaled(Wide x) const noexcept {
    if (scale == 0) {
      return x == -infinity || std::isnan(x) ? x : Wide{0};
    }
    using arithmetic = std::conditional_t<std::is_same_v<Wide, double>, float, double>;
    const arithmetic product = static_cast<arithmetic>(scale) * static_cast<arithmetic>(x);
    return std::isinf(product) ? static_cast<Wide>(product) : scale * x;
  }

  /// The scaled maximum.
  [[nodiscard]] Wide max() const noexcept {
    return kind == row_kind::finite     ? scaled(largest)
           : kind == row_kind::empty    ? -infinity
           : kind == row_kind::infinite ? infinity
                                        : nan;
  }

  /// scaled(x) - max() in a finite row: the difference first, for a product of two wide inputs
  /// would have to round where the difference of two inputs hardly ever does.
  [[nodiscard]] Wide below_max(Wide x) const noexcept {
    const Wide value = scaled(x);
    return scale == 0 || std::isinf(value) ? value : scale * (x - largest);
  }

  [[nodiscard]] Wide logsumexp() const noexcept {
    return kind == row_kind::finite ? max() + std::log(sum) : max();
  }

  [[nodiscard]] Wide softmax(Wide x, empty_row policy = empty_row::nan) const noexcept {
    if (kind == row_kind::finite) {
      return std::exp(below_max(x)) / sum;
    }
    return kind == row_kind::empty && policy == empty_row::zero ? Wide{0} : nan;
  }

  [[nodiscard]] Wide log_softmax(Wide x, empty_row policy = empty_row::nan) const noexcept {
    if (kind == row_kind::finite) {
      return below_max(x) - std::log(sum);
    }
    return kind == row_kind::empty && policy == empty_row::zero ? -infinity : nan;
  }
};

template <wide Wide>
[[nodiscard]] row_state<Wide> fold(std::span<const Wide> row, double scale = 1) {
  row_state<Wide> state;
  state.scale = effective_scale<Wide>(scale);
  Wide max = -state.infinity;
  for (const Wide x : row) {
    const Wide value = state.scaled(x);
    if (std::isnan(value)) {
      state.kind = row_kind::nan;
      return state;
    }
    if (value > max) {
      max = value;
      state.largest = x;
    }
  }
  if (std::isinf(max)) {
    state.kind = max > 0 ? row_kind::infinite : row_kind::empty;
    return state;
  }
  state.kind = row_kind::finite;
  compensated_sum<Wide> sum;
  for (const Wide x : row) {
    sum.add(std::exp(state.below_max(x)));
  }
  state.sum = sum.value();
  return state;
}

template <wide Wide>
[[nodiscard]] std::vector<Wide> softmax(std::span<const Wide> row, double scale = 1,
                                        empty_row policy = empty_row::nan) {
  const auto state = fold(row, scale);
  std::vector<Wide> y(row.size());
  std::transform(row.begin(), row.end(), y.begin(),
                 [&](Wide x) { return state.softmax(x, policy); });
  return y;
}

template <wide Wide>
[[nodiscard]] std::vector<Wide> log_softmax(std::span<const Wide> row, double scale = 1,
                                            empty_row policy = empty_row::nan) {
  const auto state = fold(row, scale);
  std::vector<Wide> y(row.size());
  std::transform(row.begin(), row.end(), y.begin(),
                 [&](Wide x) { return state.log_softmax(x, policy); });
  return y;
}

template <wide Wide>
[[nodiscard]] Wide logsumexp(std::span<const Wide> row, double scale = 1) {
  return fold(row, scale).logsumexp();
}

/// The logsumexp of each prefix of a row, of 0 to all elements, and of what comes before it.
template <wide Wide>
[[nodiscard]] std::vector<Wide> scan(std::span<const Wide> row, double scale,
                                     const max_sum<Wide>& before = {}) {
  row_state<Wide> rules;  // for what scaling makes of an element
  rules.scale = effective_scale<Wide>(scale);
  constexpr Wide infinity = row_state<Wide>::infinity;
  Wide max = before.max;
  Wide sum = before.sum;
  std::vector<Wide> logs;
  const auto log_now = [&] {
    logs.push_back(std::isnan(max) || std::isnan(sum) ? row_state<Wide>::nan
                   : max == infinity                  ? infinity
                   : sum == 0                         ? -infinity
                                                      : max + std::log(sum));
  };
  log_now();
  for (const Wide x : row) {
    const Wide value = rules.scaled(x);
    if (std::isnan(value)) {
      max = value;
    } else if (value == infinity) {
      max = std::isnan(max) ? max : value;
    } else if (value > max) {
      sum = (sum == 0 ? 0 : sum * std::exp(max - value)) + 1;
      max = value;
    } else if (value > -infinity && max < infinity) {
      sum += std::exp(value - max);
    }
    log_now();
  }
  return logs;
}

/// The gradient of softmax or log-softmax with respect to one row, dx = s (t - w sum of t), where
/// (w, t) is (y, y dy) for softmax and (exp y, dy) for log-softmax; with what its error is
/// measured by. A sum that is not finite makes the row NaN.
template <wide Wide>
struct gradient {
  Wide scale = 1;
  bool log = false;
  Wide sum = 0;        ///< of t
  Wide magnitude = 0;  ///< of abs(t)

  /// y, or exp(y) as the library's arithmetic has it: infinite past its range.
  [[nodiscard]] Wide weight(Wide y) const noexcept {
    using arithmetic = std::conditional_t<std::is_same_v<Wide, double>, float, double>;
    const Wide e = std::exp(y);
    return !log ? y
           : e > static_cast<Wide>(std::numeric_limits<arithmetic>::max())
               ? std::numeric_limits<Wide>::infinity()
               : e;
  }
  [[nodiscard]] Wide term(Wide y, Wide dy) const noexcept { return log ? dy : y * dy; }

  [[nodiscard]] Wide dx(Wide y, Wide dy) const noexcept {
    return log ? scale * (dy - weight(y) * sum) : scale * (y * (dy - sum));
  }
  /// The bound of dx is (16 + log2 cols) u times this.
  [[nodiscard]] Wide size(Wide y, Wide dy) const noexcept {
    return std::abs(scale) * (std::abs(weight(y)) * magnitude + std::abs(term(y, dy)));
  }
};

template <wide Wide>
[[nodiscard]] gradient<Wide> backward(bool log, std::span<const Wide> y, std::span<const Wide> dy,
                                      double scale = 1) {
  gradient<Wide> g{effective_scale<Wide>(scale), log};
  compensated_sum<Wide> sum;
  compensated_sum<Wide> magnitude;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const Wide term = g.term(y[i], dy[i]);
    sum.add(term);
    magnitude.add(std::abs(term));
  }
  const bool finite = std::isfinite(sum.value());
  g.sum = finite ? sum.value() : std::numeric_limits<Wide>::quiet_NaN();
  g.magnitude = magnitude.value();
  return g;
}

/// The order of top-k by value: NaN, then +infinity down to -infinity, +0 equal to -0.
template <class T>
[[nodiscard]] bool ranks_above(T a, T b) noexcept {
  return std::isnan(a) ? !std::isnan(b) : a > b;
}

/// Columns of the k largest elements in order, equal ones by column.
template <class T>
[[nodiscard]] std::vector<std::int64_t> topk(std::span<const T> row, std::size_t k) {
  std::vector<std::int64_t> columns(row.size());
  std::iota(columns.begin(), columns.end(), std::int64_t{0});
  const auto above = [&](std::int64_t a, std::int64_t b) {
    const T x = row[static_cast<std::size_t>(a)];
    const T y = row[static_cast<std::size_t>(b)];
    return ranks_above(x, y) || (!ranks_above(y, x) && a < b);
  };
  const auto end = columns.begin() + static_cast<std::ptrdiff_t>(k);
  std::nth_element(columns.begin(), end, columns.end(), above);
  std::sort(columns.begin(), end, above);
  columns.resize(k);
  return columns;
}

template <wide Wide>
struct softmax_topk_result {
  std::vector<std::int64_t> indices;
  std::vector<Wide> logits;
  std::vector<Wide> probabilities;
  Wide lse = 0;
};

/// The unscaled elements are ranked, whatever the scale.
template <wide Wide>
[[nodiscard]] softmax_topk_result<Wide> softmax_topk(std::span<const Wide> row, std::size_t k,
                                                     double scale = 1,
                                                     empty_row policy = empty_row::nan) {
  const auto state = fold(row, scale);
  softmax_topk_result<Wide> result{topk(row, k), {}, {}, state.logsumexp()};
  for (const std::int64_t column : result.indices) {
    const Wide x = row[static_cast<std::size_t>(column)];
    result.logits.push_back(x);
    result.probabilities.push_back(state.softmax(x, policy));
  }
  return result;
}

}  // namespace softfold::core::reference
