// SPDX-License-Identifier: Apache-2.0
// What the tests of sampling share: parameters, vectors of them, and what results may differ by.
#pragma once

#include "problem.hpp"

#include <core/reference_sampling.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace softfold::test {

using core::sampling::parameters;

/// A vector of the backend's memory, one value for each row.
template <class T>
class column {
 public:
  explicit column(const std::vector<T>& values) : memory_(values.size()), size_(values.size()) {
    memory_.upload(values);
  }
  [[nodiscard]] const_vector_ref ref() const {
    return {memory_.data(), dtype_of<T>, static_cast<std::int64_t>(size_)};
  }

 private:
  device_buffer<T> memory_;
  std::size_t size_;
};

/// Whether the difference is what masses in units of 2^-50 and the rounding to Out explain, and
/// `slack`.
template <class Out>
bool close(Out found, double expected, double slack = 0) {
  using A = reference::arithmetic_t<Out>;
  const auto value = static_cast<double>(reference::widen(found));
  const auto rounded =
      static_cast<double>(reference::widen(static_cast<Out>(static_cast<A>(expected))));
  if (std::isnan(expected)) {
    return std::isnan(value);
  }
  const double unit = std::is_same_v<Out, half>       ? 0x1p-10
                      : std::is_same_v<Out, bfloat16> ? 0x1p-7
                                                      : std::numeric_limits<A>::epsilon();
  return value == rounded || std::abs(value - expected) <= unit * std::abs(expected) + slack +
                                                               (is_16_bit<Out> ? 1e-7 : 1e-11);
}

/// What the logarithm of a sum over a row as it is may be off by, beyond what masses may: in f32
/// arithmetic.
template <class In>
double raw_slack(std::int64_t cols) {
  return std::is_same_v<In, double>
             ? 0
             : (6 + std::log2(static_cast<double>(std::max<std::int64_t>(cols, 1))) / 16) * 0x1p-24;
}

struct setting {
  parameters p;
  filter_order order = filter_order::top_k_first;
};

inline sample_options options_of(const setting& s) {
  sample_options o;
  o.temperature = s.p.temperature;
  o.top_k = s.p.top_k;
  o.top_p = s.p.top_p;
  o.min_p = s.p.min_p;
  o.seed = s.p.seed;
  o.offset = s.p.offset;
  o.order = s.order;
  return o;
}

/// Of seven rows or more: NaN, infinities, nothing but -infinity, and mixtures of these.
template <class In>
void make_rows_unusual(problem<In>& p) {
  const std::int64_t cols = p.x.view().cols;
  p.x(0, cols / 2) = nans<In>()[0];
  p.x(0, cols - 1) = nans<In>()[0];
  p.x(1, 3) = In(infinity<In>);
  p.x(1, 5) = In(infinity<In>);
  std::fill(p.x.row(2).begin(), p.x.row(2).end(), In(-infinity<In>));
  std::fill(p.x.row(3).begin(), p.x.row(3).end(), In(-infinity<In>));
  p.x(3, cols - 1) = In(reference::arithmetic_t<In>{-3});
  p.x(4, 0) = nans<In>()[0];
  p.x(4, 1) = In(infinity<In>);
  std::fill(p.x.row(5).begin(), p.x.row(5).end(), In(-infinity<In>));
  p.x(5, 4) = nans<In>()[0];
}

inline std::string describe(const parameters& p) {
  std::ostringstream text;
  text << "temperature " << p.temperature << ", top_k " << p.top_k << ", top_p " << p.top_p
       << ", min_p " << p.min_p << ", seed " << p.seed << ", offset " << p.offset;
  return text.str();
}

}  // namespace softfold::test
