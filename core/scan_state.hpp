// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a scan knows of the elements before a column: the softmax's state, with room for the digits
/// that a long chain of combinations would lose, which Kokkos' teams fold rows into, too; and rows
/// as GPUs' kernels scan them.
#pragma once

#include <core/monoid.hpp>
#include <core/problem.hpp>
#include <core/real_types.hpp>
#include <core/two_sum.hpp>

#include <softfold/config.hpp>
#include <softfold/max_sum.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace softfold::core {

/// Of elements in the arithmetic's type T, in numbers of type W. NaN among them is a maximum of
/// +infinity and a sum of NaN.
template <class T, class W = double>
struct scan_state {
  W max = -std::numeric_limits<W>::infinity();
  W low = 0;   ///< what the product with the scale lost of the maximum
  W sum = 0;   ///< of exp(s x - (max + low))
  W lost = 0;  ///< by the sum's roundings, which many columns would show

  static constexpr W infinity = std::numeric_limits<W>::infinity();

  SOFTFOLD_HD static scan_state of_nan() {
    return {infinity, 0, std::numeric_limits<W>::quiet_NaN(), 0};
  }
  SOFTFOLD_HD static scan_state of(T x, T scale) {
    using std::fma;
    if (x != x) {
      return of_nan();
    }
    if (scale == T{0}) {
      return x == -std::numeric_limits<T>::infinity() ? scan_state{} : scan_state{0, 0, 1, 0};
    }
    const T product = scale * x;
    if (product == std::numeric_limits<T>::infinity()) {
      return {infinity, 0, 1, 0};
    }
    if (product == -std::numeric_limits<T>::infinity()) {
      return {};
    }
    const W z = static_cast<W>(scale) * static_cast<W>(x);
    if constexpr (sizeof(T) == sizeof(W)) {
      return {z, fma(static_cast<W>(scale), static_cast<W>(x), -z), 1, 0};
    } else {
      return {z, 0, 1, 0};
    }
  }
  SOFTFOLD_HD static scan_state of(const max_sum<T>& given) {
    if (given.max != given.max || given.sum != given.sum) {
      return of_nan();
    }
    if (given.max == std::numeric_limits<T>::infinity()) {
      return {infinity, 0, 1, 0};
    }
    if (!(given.sum > 0) || given.max == -std::numeric_limits<T>::infinity()) {
      return {};
    }
    return {static_cast<W>(given.max), 0, static_cast<W>(given.sum), 0};
  }

  [[nodiscard]] SOFTFOLD_HD bool is_empty() const { return sum == 0; }
  /// Neither that nor NaN nor infinite.
  [[nodiscard]] SOFTFOLD_HD bool is_ordinary() const { return sum != 0 && max != infinity; }

  /// An ordinary state's sum relative to another maximum, near its own.
  [[nodiscard]] SOFTFOLD_HD W sum_relative_to(W other) const {
    using std::exp;
    return (sum + lost) * exp((max - other) + low);
  }
  [[nodiscard]] SOFTFOLD_HD max_sum<T> partial() const {
    if (max == infinity) {
      return sum != sum ? max_sum<T>{static_cast<T>(sum), static_cast<T>(sum)}
                        : max_sum<T>{std::numeric_limits<T>::infinity(), T{1}};
    }
    if (is_empty()) {
      return {};
    }
    // Beyond, elements count as rounded to the arithmetic's type.
    constexpr W near = sizeof(T) == 8 ? 0x1p59 : 0x1p30;
    const T rounded = static_cast<T>(max);
    return {rounded,
            static_cast<T>(max < near && max > -near ? sum_relative_to(static_cast<W>(rounded))
                                                     : sum + lost)};
  }
  [[nodiscard]] SOFTFOLD_HD T logsumexp() const {
    using std::log;
    if (max == infinity) {
      return sum != sum ? static_cast<T>(sum) : std::numeric_limits<T>::infinity();
    }
    return is_empty()
               ? -std::numeric_limits<T>::infinity()
               : static_cast<T>(max + (low + static_cast<W>(log(static_cast<T>(sum + lost)))));
  }
};

/// Its monoid. R: the type that sums are rescaled by, narrower where few combinations follow each
/// other.
template <class T, class W = double, class R = W>
struct scan_monoid {
  using value_type = scan_state<T, W>;

  SOFTFOLD_HD static value_type identity() { return {}; }
  SOFTFOLD_HD static value_type combine(const value_type& a, const value_type& b) {
    using std::exp;
    // Two products may round alike and be far apart.
    const bool a_is_larger = a.max > b.max || (a.max == b.max && a.low > b.low);
    const W max = a_is_larger ? a.max : b.max;
    const W low = a_is_larger ? a.low : b.low;
    const W less_max = a_is_larger ? b.max : a.max;
    const W less_low = a_is_larger ? b.low : a.low;
    const bool alike = max == less_max && low == less_low;
    const W ratio =
        alike ? W{1} : static_cast<W>(exp(static_cast<R>((less_max - max) + (less_low - low))));
    const W more = a_is_larger ? a.sum : b.sum;
    const W less = (a_is_larger ? b.sum : a.sum) * ratio;
    const auto total = two_sum<W>::of(more, less);
    const W lost = a_is_larger ? a.lost + b.lost * ratio : b.lost + a.lost * ratio;
    return {max, low, total.value, lost + total.lost};
  }
};
static_assert(monoid<scan_monoid<float>> && monoid<scan_monoid<double>>);

/// Rows in the order of a scan, in chunks of so many elements, and what comes before each.
template <class In, int chunk_elements>
struct scan_rows {
  using T = arithmetic_t<In>;
  using state = scan_state<T>;
  using monoid = scan_monoid<T>;

  const In* x;
  std::int64_t stride;
  std::int64_t rows;
  std::int64_t cols;
  T scale;
  bool reverse;
  std::int64_t chunks;
  state* carries;  ///< [rows, chunks + 1]: of what comes before each chunk, and after the last

  static scan_rows of(const scan_problem& p) {
    return {static_cast<const In*>(p.x.data),
            p.x.stride,
            p.x.rows,
            p.x.cols,
            static_cast<T>(p.scale),
            p.reverse,
            (p.x.cols + chunk_elements - 1) / chunk_elements,
            nullptr};
  }
  [[nodiscard]] std::size_t carry_bytes() const {
    return static_cast<std::size_t>(rows * (chunks + 1)) * sizeof(state);
  }

  [[nodiscard]] SOFTFOLD_HD std::int64_t column(std::int64_t i) const {
    return reverse ? cols - 1 - i : i;
  }
  [[nodiscard]] SOFTFOLD_HD T element(std::int64_t row, std::int64_t i) const {
    return static_cast<T>(x[row * stride + column(i)]);
  }
  [[nodiscard]] SOFTFOLD_HD state state_of(T element) const { return state::of(element, scale); }
  [[nodiscard]] SOFTFOLD_HD std::int64_t end_of(std::int64_t chunk) const {
    const std::int64_t end = (chunk + 1) * chunk_elements;
    return end < cols ? end : cols;
  }
  [[nodiscard]] SOFTFOLD_HD state* carries_of(std::int64_t row) const {
    return carries + row * (chunks + 1);
  }
};

}  // namespace softfold::core
