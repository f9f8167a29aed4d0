// SPDX-License-Identifier: Apache-2.0
// The accuracy table of docs/semantics.md, as code. Each check returns an empty string, or what
// is wrong with the first wrong element.
//
// u is 2^-24, for f64 input 2^-53; t_i is s x_i - m.
//   softmax      relative (16 + log2 cols) u, plus abs(t_i) u if t_i is no number of the
//                arithmetic's type (then the subtraction, or the product, has to round)
//   sum          abs(sum of y - 1) <= (16 + log2 cols) u, for outputs of the arithmetic's type
//   logsumexp    absolute abs(lse) u + (16 + log2 cols) u
//   log-softmax  absolute (abs(t_i) + abs(y_i) + 16 + log2 cols) u, and never above 0
//   16-bit       within one ulp of the correctly rounded exact value. Logarithms near 0 are
//                cancellations, whose absolute bound is many ulps: there, the rounding of any
//                value within the bound above is right.
//   below the smallest normal of the output's type: 0, or rounded (within one spacing).
#pragma once

#include "data.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace softfold::test {

template <class T>
constexpr bool is_16_bit = sizeof(T) == 2;

template <class T>
bool is_nan(T x) {
  return std::isnan(reference::widen(x));
}

/// The nearest T, ties to even, by one rounding.
template <class T>
T correctly_rounded(double value) {
  auto f = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(f) == value) {
    return T(f);
  }
  // Round to odd in between: the last bit remembers that something was cut off.
  if (std::abs(static_cast<double>(f)) > std::abs(value)) {
    f = std::nextafter(f, 0.0F);
  }
  return T(std::bit_cast<float>(std::bit_cast<std::uint32_t>(f) | 1u));
}

/// Distance in units in the last place of a 16-bit type, infinity beside the greatest number.
template <class T>
int ulps_between(T a, T b) {
  const auto place = [](T x) {
    const int magnitude = x.bits & 0x7fff;
    return (x.bits & 0x8000) != 0 ? -magnitude : magnitude;
  };
  return std::abs(place(a) - place(b));
}

/// The largest error seen of each kind, as a fraction of its bound: printed at the end of a run
/// when SOFTFOLD_TEST_MARGINS is set in the environment.
void record_margin(const char* quantity, dtype arithmetic, double fraction);

/// What the oracle says about one row of type In, and the checks of what the library says.
template <class In>
class row_oracle {
 public:
  using wide = reference::wide_t<In>;
  using arithmetic = reference::arithmetic_t<In>;

  row_oracle(std::span<const In> row, double scale)
      : elements_(reference::widen(row)), scale_(scale) {}

  /// Folded when it is first asked for: top-k never asks.
  [[nodiscard]] const reference::row_state<wide>& state() const {
    if (!state_) {
      state_ = reference::fold(elements(), scale_);
    }
    return *state_;
  }
  [[nodiscard]] std::span<const wide> elements() const noexcept { return elements_; }

  /// Roundings of combine() that a result has gone through: each adds 2 u to its bound.
  void set_combines(int combines) { extra_ = 2 * combines; }

  template <class Out>
  [[nodiscard]] std::string check_softmax(std::span<const Out> y, empty_row policy) const {
    reference::compensated_sum<wide> sum;
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (auto text = check_probability(y[i], i, policy); !text.empty()) {
        return text;
      }
      sum.add(reference::widen(y[i]));
    }
    if (!is_16_bit<Out> && state().kind == reference::row_kind::finite && extra_ == 0) {
      const wide error = std::abs(sum.value() - 1);
      record("sum of softmax", error, base());
      if (!(error <= base())) {
        return describe("sum", 0, sum.value(), wide{1}, base());
      }
    }
    return {};
  }

  template <class Out>
  [[nodiscard]] std::string check_probability(Out y, std::size_t i, empty_row policy) const {
    const wide exact = state().softmax(elements_[i], policy);
    const wide value = reference::widen(y);
    const wide relative = base() + (subtraction_rounds(i) ? std::abs(below_max(i)) * u : wide{0});
    if (std::isnan(exact)) {
      return std::isnan(value) ? "" : describe("softmax", i, value, exact, relative);
    }
    const wide smallest = reference::widen(type_limits<Out>::min_normal());
    bool right = false;
    if (exact < smallest) {
      right = value == 0 || (exact > 0 && std::abs(value - exact) <=
                                              relative * exact +
                                                  reference::widen(type_limits<Out>::denorm_min()));
    } else if constexpr (is_16_bit<Out>) {
      right = ulps_between(y, correctly_rounded<Out>(exact)) <= 1;
    } else {
      const wide error = std::abs(value - exact);
      record("softmax", error, relative * exact);
      right = error <= relative * exact;
    }
    return right ? "" : describe("softmax", i, value, exact, relative * exact);
  }

  template <class Out>
  [[nodiscard]] std::string check_log_softmax(std::span<const Out> y, empty_row policy) const {
    for (std::size_t i = 0; i < y.size(); ++i) {
      const wide exact = state().log_softmax(elements_[i], policy);
      const wide bound =
          std::isfinite(exact) ? (std::abs(below_max(i)) + std::abs(exact)) * u + base() : wide{0};
      if (!within("log_softmax", y[i], exact, bound) || reference::widen(y[i]) > 0) {
        return describe("log_softmax", i, reference::widen(y[i]), exact, bound);
      }
    }
    return {};
  }

  template <class Out>
  [[nodiscard]] std::string check_logsumexp(Out y) const {
    const wide exact = state().logsumexp();
    const wide bound = std::isfinite(exact) ? std::abs(exact) * u + base() : wide{0};
    return within("logsumexp", y, exact, bound)
               ? ""
               : describe("logsumexp", 0, reference::widen(y), exact, bound);
  }

 private:
  static constexpr wide u = std::numeric_limits<arithmetic>::epsilon() / 2;

  [[nodiscard]] wide base() const {
    return (16 + std::log2(static_cast<wide>(elements_.size())) + static_cast<wide>(extra_)) * u;
  }

  [[nodiscard]] wide below_max(std::size_t i) const { return state().below_max(elements_[i]); }

  /// Whether t_i, exactly, is no number of the arithmetic's type.
  [[nodiscard]] bool subtraction_rounds(std::size_t i) const {
    const wide x = elements_[i];
    const wide t = below_max(i);
    if (state().kind != reference::row_kind::finite || std::isinf(t) || t == 0) {
      return false;
    }
    const wide difference = x - state().largest;
    const wide back = difference - x;  // Knuth's two-difference: what the subtraction lost
    const wide lost = (x - (difference - back)) - (state().largest + back);
    int exponent = 0;
    const bool power_of_two = std::abs(std::frexp(state().scale, &exponent)) == wide{0.5};
    return lost != 0 || !power_of_two ||
           static_cast<wide>(static_cast<arithmetic>(difference)) != difference;
  }

  /// Whether y is the rounding of a value within `bound` of `exact`.
  template <class Out>
  [[nodiscard]] bool within(const char* quantity, Out y, wide exact, wide bound) const {
    const wide value = reference::widen(y);
    if (std::isnan(exact) || std::isinf(exact)) {
      return std::isnan(exact) ? std::isnan(value) : value == exact;
    }
    if constexpr (is_16_bit<Out>) {
      return ulps_between(y, correctly_rounded<Out>(exact)) <= 1 ||
             (value >= reference::widen(correctly_rounded<Out>(exact - bound)) &&
              value <= reference::widen(correctly_rounded<Out>(exact + bound)));
    } else {
      if (std::isinf(value)) {  // beyond the type's range
        return std::isinf(static_cast<Out>(value > 0 ? exact + bound : exact - bound)) &&
               (value > 0) == (exact > 0);
      }
      record(quantity, std::abs(value - exact), bound);
      return std::abs(value - exact) <= bound;
    }
  }

  static void record(const char* quantity, wide error, wide bound) {
    record_margin(quantity, dtype_of<arithmetic>, static_cast<double>(error / bound));
  }

  [[nodiscard]] std::string describe(const char* quantity, std::size_t i, wide value, wide exact,
                                     wide bound) const {
    std::ostringstream text;
    text.precision(17);
    text << quantity << ", column " << i << ": " << value << ", exact " << exact << ", error "
         << std::abs(value - exact) << ", bound " << bound << " (x = " << elements_[i]
         << ", largest " << state().largest << ", t = " << below_max(i) << ")";
    return text.str();
  }

  std::vector<wide> elements_;
  double scale_;
  mutable std::optional<reference::row_state<wide>> state_;
  int extra_ = 0;
};

}  // namespace softfold::test
