// SPDX-License-Identifier: Apache-2.0
// The result y of a softmax or log-softmax, its gradient dy, what the oracle says about them, and
// the check of what the library says.
#pragma once

#include "problem.hpp"

namespace softfold::test {

/// The bound of docs/semantics.md on one row, for results of type In.
template <class In>
class gradient_oracle {
 public:
  using wide = reference::wide_t<In>;
  using arithmetic = reference::arithmetic_t<In>;

  gradient_oracle(bool log, std::span<const In> y, std::span<const In> dy, double scale)
      : y_(reference::widen(y)),
        dy_(reference::widen(dy)),
        row_(reference::backward(log, std::span<const wide>(y_), std::span<const wide>(dy_),
                                 scale)) {}

  template <class Out>
  [[nodiscard]] std::string check(std::span<const Out> dx) const {
    for (std::size_t i = 0; i < dx.size(); ++i) {
      const wide exact = row_.dx(y_[i], dy_[i]);
      const wide bound = bound_of(i);
      if (!is_right(dx[i], exact, bound, i)) {
        std::ostringstream text;
        text.precision(17);
        text << (row_.log ? "log_softmax_backward" : "softmax_backward") << ", column " << i << ": "
             << reference::widen(dx[i]) << ", exact " << exact << ", error "
             << std::abs(reference::widen(dx[i]) - exact) << ", bound " << bound
             << " (y = " << y_[i] << ", dy = " << dy_[i] << ", sum " << row_.sum << ")";
        return text.str();
      }
    }
    return {};
  }

 private:
  static constexpr wide u = std::numeric_limits<arithmetic>::epsilon() / 2;
  static constexpr wide least = std::numeric_limits<arithmetic>::min();
  static constexpr wide greatest = std::numeric_limits<arithmetic>::max();

  /// All that a step on the way to dx may come to.
  [[nodiscard]] wide reach(std::size_t i) const {
    const wide difference = row_.magnitude + std::abs(dy_[i]);
    const wide weighed = std::max(std::abs(row_.weight(y_[i])), wide{1}) * difference;
    return std::max(std::abs(row_.scale), wide{1}) * weighed;
  }

  /// The stated bound, and what steps lose whose results are below the smallest normal number.
  [[nodiscard]] wide bound_of(std::size_t i) const {
    const auto cols = static_cast<wide>(y_.size());
    const wide scale = std::abs(row_.scale);
    const wide underflow = least * (1 + 2 * scale + scale * std::abs(row_.weight(y_[i])) * cols +
                                    2 * (1 + scale) * (row_.magnitude + std::abs(dy_[i])));
    return (16 + std::log2(cols)) * u * row_.size(y_[i], dy_[i]) + underflow;
  }

  template <class Out>
  [[nodiscard]] bool is_right(Out found, wide exact, wide bound, std::size_t i) const {
    const wide value = reference::widen(found);
    if (std::isnan(value) && std::bit_cast<canonical<Out>>(found) != nan_bits<Out>()) {
      return false;
    }
    if (std::isnan(exact)) {
      return std::isnan(value);
    }
    if (std::isinf(exact)) {
      return value == exact;
    }
    if (!(reach(i) < greatest / 2)) {
      return true;  // a step may overflow
    }
    if constexpr (is_16_bit<Out>) {
      return ulps_between(found, correctly_rounded<Out>(exact)) <= 1 ||
             (value >= reference::widen(correctly_rounded<Out>(exact - bound)) &&
              value <= reference::widen(correctly_rounded<Out>(exact + bound)));
    } else {
      record_margin(row_.log ? "gradient of log_softmax" : "gradient of softmax",
                    dtype_of<arithmetic>, static_cast<double>(std::abs(value - exact) / bound));
      return std::abs(value - exact) <= bound;
    }
  }

  template <class Out>
  using canonical =
      std::conditional_t<sizeof(Out) == 2, std::uint16_t,
                         std::conditional_t<sizeof(Out) == 4, std::uint32_t, std::uint64_t>>;
  template <class Out>
  static canonical<Out> nan_bits() {
    return std::bit_cast<canonical<Out>>(make<Out>(std::numeric_limits<double>::quiet_NaN()));
  }

  std::vector<wide> y_;
  std::vector<wide> dy_;
  reference::gradient<wide> row_;
};

struct gradient_spec {
  bool log = false;
  std::int64_t rows = 1;
  std::int64_t cols = 1;
  distribution logits = distribution::normal;  ///< y is their softmax or log-softmax
  distribution dy = distribution::normal;
  double scale = 1;
  std::int64_t padding = 0;  ///< of y; dy and dx have others
  std::int64_t offset = 0;
  std::uint64_t seed = 1;
};

inline std::string describe(const gradient_spec& s) {
  std::ostringstream text;
  text << (s.log ? "log_softmax_backward of " : "softmax_backward of ") << s.rows << " x " << s.cols
       << ", y of " << name_of(s.logits) << ", dy " << name_of(s.dy) << ", scale " << s.scale
       << ", padding " << s.padding << ", offset " << s.offset << ", seed " << s.seed;
  return text.str();
}

template <class In>
class gradient_problem {
 public:
  using wide = reference::wide_t<In>;

  /// A matrix that will be written to has role::output.
  explicit gradient_problem(const gradient_spec& s, role y_role = role::input,
                            role dy_role = role::input)
      : spec(s),
        y({s.rows, s.cols, s.padding, s.offset}, y_role),
        dy({s.rows, s.cols, s.padding + (s.offset != 0 ? 2 : 0), 2 * s.offset}, dy_role) {
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const std::uint64_t seed = s.seed + static_cast<std::uint64_t>(r);
      fill(s.dy, dy.row(r), seed + 500000);
      fill(s.logits, y.row(r), seed);
      const std::vector<wide> x = reference::widen(std::span<const In>(y.row(r)));
      const auto result = s.log ? reference::log_softmax(std::span<const wide>(x), s.scale)
                                : reference::softmax(std::span<const wide>(x), s.scale);
      std::transform(result.begin(), result.end(), y.row(r).begin(),
                     [](wide v) { return In(static_cast<reference::arithmetic_t<In>>(v)); });
    }
    commit();
  }

  /// After a change: sends both to the device.
  void commit() {
    y.upload();
    dy.upload();
  }

  template <class Out>
  void call(queue& q, const matrix_view<Out>& dx) {
    const backward_options options{.scale = spec.scale};
    spec.log ? log_softmax_backward(q, y.view(), dy.view(), dx, options)
             : softmax_backward(q, y.view(), dy.view(), dx, options);
    q.wait();
  }

  [[nodiscard]] gradient_oracle<In> oracle(std::int64_t r) const {
    return {spec.log, y.row(r), dy.row(r), spec.scale};
  }

  gradient_spec spec;
  matrix<In> y;
  matrix<In> dy;
};

/// Runs the problem and says what is wrong, first row first.
template <class Out, class In>
std::string wrong_in(queue& q, gradient_problem<In>& p) {
  const gradient_spec& s = p.spec;
  matrix<Out> dx({s.rows, s.cols, s.padding + (s.offset != 0 ? 1 : 0), 3 * s.offset}, role::output);
  p.call(q, dx.view());
  dx.download();
  p.y.download();
  p.dy.download();
  std::string text = p.y.untouched() + p.dy.untouched() + dx.stray_writes();
  for (std::int64_t r = 0; r < s.rows && text.empty(); ++r) {
    text = p.oracle(r).check(std::span<const Out>(dx.row(r)));
    text += text.empty() ? "" : ", row " + std::to_string(r);
  }
  return text.empty() ? text : text + "; " + describe(s);
}

/// The same in place.
template <class In>
std::string wrong_in_place(queue& q, const gradient_spec& spec, bool over_y) {
  gradient_problem<In> p(spec, over_y ? role::output : role::input,
                         over_y ? role::input : role::output);
  std::vector<gradient_oracle<In>> oracles;
  for (std::int64_t r = 0; r < p.spec.rows; ++r) {
    oracles.push_back(p.oracle(r));
  }
  matrix<In>& dx = over_y ? p.y : p.dy;
  p.call(q, dx.view());
  p.y.download();
  p.dy.download();
  std::string text = (over_y ? p.dy : p.y).untouched() + dx.stray_writes();
  for (std::int64_t r = 0; r < p.spec.rows && text.empty(); ++r) {
    text = oracles[static_cast<std::size_t>(r)].check(std::span<const In>(dx.row(r)));
  }
  return text.empty() ? text : text + (over_y ? "; over y, " : "; over dy, ") + describe(p.spec);
}

}  // namespace softfold::test
