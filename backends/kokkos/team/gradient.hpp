// SPDX-License-Identifier: Apache-2.0
/// \file
/// The gradients of softmax and log-softmax: two matrices are read, a row's state is a sum.
#pragma once

#include "lanes.hpp"

#include <core/compensated_sum.hpp>
#include <core/problem.hpp>
#include <core/real_types.hpp>
#include <core/typed_memory.hpp>

#include <Kokkos_Core.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

template <class T>
struct gradient_rows {
  using A = core::arithmetic_t<T>;
  static constexpr int shared_bytes = 0;

  core::backward_problem p;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t r) const {
    const T* const y = static_cast<const T*>(p.y.data) + r * p.y.stride;
    const T* const dy = static_cast<const T*>(p.dy.data) + r * p.dy.stride;
    const auto terms = lanes.template reduce<core::compensated_monoid>(
        p.y.cols, [&](std::int64_t i, core::compensated_sum& all) {
          const A gradient = static_cast<A>(dy[i]);
          all.add(p.log ? gradient : static_cast<A>(y[i]) * gradient);
        });
    const A total = static_cast<A>(terms.total());
    const A nan = std::numeric_limits<A>::quiet_NaN();
    const A sum = total - total == A{0} ? total : nan;
    const A s = static_cast<A>(p.scale);
    lanes.each(p.y.cols, [&](std::int64_t i) {
      const A result = static_cast<A>(y[i]);
      const A gradient = static_cast<A>(dy[i]);
      const A dx =
          s * (p.log ? std::fma(-std::exp(result), sum, gradient) : result * (gradient - sum));
      core::write_real(p.dx.data, p.dx.type, r * p.dx.stride + i, dx == dx ? dx : nan);
    });
  }
};

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
