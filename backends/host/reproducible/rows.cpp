// SPDX-License-Identifier: Apache-2.0
/// \file
/// Reproducible softmax, log_softmax and logsumexp.
#include <backends/host/parallel.hpp>
#include <backends/host/reproducible/plain.hpp>
#include <backends/host/run.hpp>

#include <core/typed_memory.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

void run_reproducible_softmax(executor& on, const core::row_problem& p) {
  if (p.x.cols == 0) {
    return;
  }
  const const_matrix_ref& whole = p.whole.data != nullptr ? p.whole : p.x;
  core::with_real(p.x.type, [&](auto in) {
    using In = decltype(in);
    core::with_output<In>(p.y.type, [&](auto out) {
      using Out = decltype(out);
      over_each(on, p.x.rows, whole.cols, [&](std::int64_t r) {
        const auto total =
            plain_total(static_cast<const In*>(whole.data) + r * whole.stride, whole.cols, p.scale);
        plain_map(total, static_cast<const In*>(p.x.data) + r * p.x.stride, p.x.cols,
                  p.what == core::operation::log_softmax, p.policy,
                  static_cast<Out*>(p.y.data) + r * p.y.stride);
      });
    });
  });
}

void run_reproducible_logsumexp(executor& on, const core::row_problem& p) {
  core::with_real(p.x.type, [&](auto in) {
    using In = decltype(in);
    over_each(on, p.x.rows, p.x.cols, [&](std::int64_t r) {
      const auto total =
          plain_total(static_cast<const In*>(p.x.data) + r * p.x.stride, p.x.cols, p.scale);
      core::write_real(p.y.data, p.y.type, r * p.y.stride, total.lse);
    });
  });
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
