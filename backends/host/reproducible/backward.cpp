// SPDX-License-Identifier: Apache-2.0
/// \file
/// Reproducible gradients.
#include <backends/host/parallel.hpp>
#include <backends/host/reproducible/plain.hpp>
#include <backends/host/run.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

void run_reproducible_backward(executor& on, const core::backward_problem& p) {
  if (p.y.cols == 0) {
    return;
  }
  core::with_real(p.y.type, [&](auto in) {
    using In = decltype(in);
    using A = arithmetic_t<In>;
    core::with_output<In>(p.dx.type, [&](auto out) {
      using Out = decltype(out);
      over_each(on, p.y.rows, 2 * p.y.cols, [&](std::int64_t r) {
        const In* const y = static_cast<const In*>(p.y.data) + r * p.y.stride;
        const In* const dy = static_cast<const In*>(p.dy.data) + r * p.dy.stride;
        Out* const dx = static_cast<Out*>(p.dx.data) + r * p.dx.stride;
        const auto row = core::reproducible::gradient_of<A>(
            p.log, static_cast<A>(p.scale), p.y.cols,
            [y](std::int64_t c) { return static_cast<A>(y[c]); },
            [dy](std::int64_t c) { return static_cast<A>(dy[c]); });
        for (std::int64_t c = 0; c < p.y.cols; ++c) {
          const auto of_y = static_cast<A>(y[c]);
          const auto of_dy = static_cast<A>(dy[c]);
          dx[c] = Out(p.log ? row.log_softmax(of_y, of_dy) : row.softmax(of_y, of_dy));
        }
      });
    });
  });
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
