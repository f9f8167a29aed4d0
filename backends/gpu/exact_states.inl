// SPDX-License-Identifier: Apache-2.0
/// \file
/// fold, normalize and log_normalize with states that have exact sums, for one element type.
#pragma once

#include <gpu/reproducible.inl>
#include <gpu/reproducible/states.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class In>
void run_exactly(executor& on, const core::fold_problem& p) {
  using A = arithmetic_t<In>;
  if (p.x.rows == 0) {
    return;
  }
  const runtime::current_device current(on.device);
  const auto plan = total_plan::of<In>(on, p.x, p.scale);
  part_total<A>* parts = nullptr;
  scratch_arrays::lay_out(on, [&](scratch_arrays& memory) {
    parts = memory.take<part_total<A>>(plan.parts(p.x.rows));
  });
  launch_totals<In>(on, plan, p.x, p.scale, parts,
                    {.states = static_cast<exact_max_sum<A>*>(p.partials.data)});
}

template <class In>
void run_exactly(executor& on, const core::normalize_problem& p) {
  using A = arithmetic_t<In>;
  if (p.x.rows == 0 || p.x.cols == 0) {
    return;
  }
  const runtime::current_device current(on.device);
  core::reproducible::row_total<A>* totals = nullptr;
  scratch_arrays::lay_out(on, [&](scratch_arrays& memory) {
    totals = memory.take<core::reproducible::row_total<A>>(p.x.rows);
  });
  launch_grid(on.stream, totals_of_states<A>, divide_up(p.x.rows, reader_threads), reader_threads,
              static_cast<const exact_max_sum<A>*>(p.partials.data), p.x.rows,
              static_cast<A>(p.scale), totals);
  map_by_totals<In>(on,
                    {p.log ? core::operation::log_softmax : core::operation::softmax, p.x, p.y,
                     p.scale, p.policy},
                    totals);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

// In the unit of reproducible.inl, whose kernels these are.
#define SOFTFOLD_GPU_EXACT_STATES(In)                                       \
  namespace softfold::gpu {                                                 \
  inline namespace SOFTFOLD_BACKEND {                                       \
  template void run_exactly<In>(executor&, const core::fold_problem&);      \
  template void run_exactly<In>(executor&, const core::normalize_problem&); \
  }                                                                         \
  }                                                                         \
  static_assert(true)
