// SPDX-License-Identifier: Apache-2.0
// Compiled for compute capability 9.0a only.
#include "attention_run.hpp"
#include "attention_warpgroups.hpp"

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class In, class Shape>
void run_groups(executor& on, const core::attention_problem& p, std::int64_t chunk_keys) {
  run_with_parts<In, Shape>(on, p, parts_of_keys<float>(on, p, chunk_keys, Shape::rows),
                            attention_by_groups<In, Shape>);
}

template <class In>
void run_by_groups(executor& on, const core::attention_problem& p, std::int64_t chunk_keys) {
  const std::int64_t dims = largest_dim(p);
  if (dims <= 64) {
    run_groups<In, group_shape<64, 128, 2, 4>>(on, p, chunk_keys);
  } else if (dims <= 128) {
    run_groups<In, group_shape<128, 128, 2, 3>>(on, p, chunk_keys);
  } else {
    run_groups<In, group_shape<256, 64, 2, 2>>(on, p, chunk_keys);
  }
}

template void run_by_groups<half>(executor& on, const core::attention_problem& p,
                                  std::int64_t chunk_keys);
template void run_by_groups<bfloat16>(executor& on, const core::attention_problem& p,
                                      std::int64_t chunk_keys);

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
