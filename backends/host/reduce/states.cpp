// SPDX-License-Identifier: Apache-2.0
/// \file
/// combine, and logsumexp of states: no row is read.
#include <backends/host/parallel.hpp>
#include <backends/host/row/state.hpp>
#include <backends/host/run.hpp>

#include <core/monoid.hpp>

#include <cmath>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

template <class T>
void run_combine(executor& on, const void* more, void* partials, std::int64_t rows) {
  const auto* a = static_cast<const max_sum<T>*>(more);
  auto* b = static_cast<max_sum<T>*>(partials);
  over_each(on, rows, 2,
            [&](std::int64_t r) { b[r] = core::max_sum_monoid<T>::combine(b[r], a[r]); });
}

}  // namespace

void run(executor& on, const core::combine_problem& p) {
  if (p.partials.sum == sum_kind::exact) {
    return run_exact(on, p);
  }
  if (p.more.size == 0) {
    return;
  }
  if (p.more.type == dtype::f64) {
    run_combine<double>(on, p.more.data, p.partials.data, p.more.size);
  } else {
    run_combine<float>(on, p.more.data, p.partials.data, p.more.size);
  }
}

void run(executor& on, const core::state_problem& p) {
  if (p.partials.sum == sum_kind::exact) {
    return run_exact(on, p);
  }
  for (std::int64_t r = 0; r < p.partials.size; ++r) {
    const max_sum<double> row = read_partial(p.partials.data, p.partials.type, r);
    core::write_real(p.lse.data, p.lse.type, r, row.max + std::log(row.sum));
  }
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
