// SPDX-License-Identifier: Apache-2.0
// Compiled for compute capability 9.0a only.
#include "attention_run.hpp"
#include "attention_warpgroups.hpp"

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class In>
void run_by_groups(executor& on, const core::attention_problem& p, std::int64_t chunk_keys) {
  const std::int64_t dims = largest_dim(p);
  if (dims <= 64) {
    using shape = group_shape<64, 128, 2>;
    run_with_parts<In, shape>(on, p, chunk_keys, attention_by_groups<In, shape>);
  } else if (dims <= 128) {
    using shape = group_shape<128, 128, 2>;
    run_with_parts<In, shape>(on, p, chunk_keys, attention_by_groups<In, shape>);
  } else {
    using shape = group_shape<256, 64, 2>;
    run_with_parts<In, shape>(on, p, chunk_keys, attention_by_groups<In, shape>);
  }
}

template void run_by_groups<half>(executor& on, const core::attention_problem& p,
                                  std::int64_t chunk_keys);
template void run_by_groups<bfloat16>(executor& on, const core::attention_problem& p,
                                      std::int64_t chunk_keys);

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
