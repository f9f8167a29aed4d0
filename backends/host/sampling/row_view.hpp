// SPDX-License-Identifier: Apache-2.0
/// \file
/// A row as sampling sees it beside the vector kernels: one element at a time, exactly.
#pragma once

#include <backends/host/row/source.hpp>

#include <core/sample_problem.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

struct row_view {
  const source& from;
  const void* x;

  row_view(const source& s, std::int64_t r) : from(s), x(s.row(r)) {}

  [[nodiscard]] std::int64_t cols() const { return from.x.cols; }
  [[nodiscard]] const void* at(std::int64_t i) const { return from.kernels.at(x, i); }
  [[nodiscard]] const input_kernels& kernels() const { return from.kernels.input; }
  [[nodiscard]] bool is_double() const { return from.kernels.computed == dtype::f64; }
  [[nodiscard]] double operator[](std::int64_t i) const {
    return core::real_at<double>(x, from.x.type, i);
  }
  [[nodiscard]] core::sampling::place place_of(double value, std::int64_t i) const {
    return {is_double() ? core::order_key(value)
                        : std::uint64_t{core::order_key(static_cast<float>(value))},
            i};
  }
};

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
