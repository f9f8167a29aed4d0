// SPDX-License-Identifier: Apache-2.0
// Compiled for compute capability 9.0a only.
#include "attention_run.hpp"
#include "attention_warpgroups.hpp"

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

template <class In, class Shape>
void launch(executor& on, const core::attention_problem& p, const attention_parts<float>& parts) {
  static_assert(Shape::rows == rows_of_groups);
  launch_parts<Shape>(on, p, parts, attention_by_groups<In, Shape>);
}

}  // namespace

template <class In>
void launch_by_groups(executor& on, const core::attention_problem& p,
                      const attention_parts<float>& parts) {
  const std::int64_t dims = largest_dim(p);
  dims <= 64    ? launch<In, group_shape<64, 128, 4>>(on, p, parts)
  : dims <= 128 ? launch<In, group_shape<128, 128, 3>>(on, p, parts)
                : launch<In, group_shape<256, 64, 2>>(on, p, parts);
}

template void launch_by_groups<half>(executor&, const core::attention_problem&,
                                     const attention_parts<float>&);
template void launch_by_groups<bfloat16>(executor&, const core::attention_problem&,
                                         const attention_parts<float>&);

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
