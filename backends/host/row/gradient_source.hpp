// SPDX-License-Identifier: Apache-2.0
/// \file
/// The matrices of softmax_backward and log_softmax_backward: two are read, one is written.
#pragma once

#include <backends/host/executor.hpp>
#include <backends/host/row/source.hpp>

#include <core/problem.hpp>

#include <cstddef>
#include <cstdint>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

/// What jobs of gradients have in common.
struct gradient_source {
  source y;
  const_matrix_ref dy;
  matrix_ref dx;
  const gradient_functions& functions;

  gradient_source(const executor& on, const core::backward_problem& p)
      : y(on.kernels, p.y, p.scale, p.dx.type),
        dy(p.dy),
        dx(p.dx),
        functions(p.log ? y.kernels.output.log_softmax_gradient
                        : y.kernels.output.softmax_gradient) {}

  [[nodiscard]] static std::size_t kept_bytes(const plan&) { return 0; }
  [[nodiscard]] shape description() const {
    shape s = y.shape_to(static_cast<std::int64_t>(size_of(dx.type)));
    s.input_bytes *= 2;
    s.in_place = dx.data == y.x.data || dx.data == dy.data;
    return s;
  }

  /// A row of each, from a column on.
  struct elements {
    const void* y;
    const void* dy;
    void* dx;
  };
  [[nodiscard]] elements at(std::int64_t r, std::int64_t column = 0) const {
    return {y.kernels.at(y.row(r), column), y.kernels.at(dy.data, r * dy.stride + column),
            y.kernels.result_at(dx.data, r * dx.stride + column)};
  }
  [[nodiscard]] gradient_rows rows_of(std::int64_t begin, std::int64_t end) const {
    const elements first = at(begin);
    return {.y = first.y,
            .dy = first.dy,
            .dx = first.dx,
            .y_stride = y.x.stride,
            .dy_stride = dy.stride,
            .dx_stride = dx.stride,
            .rows = end - begin,
            .cols = y.x.cols,
            .scale = y.scale};
  }
};

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
