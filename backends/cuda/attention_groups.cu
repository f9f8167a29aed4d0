// SPDX-License-Identifier: Apache-2.0
// Compiled for compute capability 9.0a only.
#include "attention_run.hpp"
#include "attention_warpgroups.hpp"

#include <gpu/executor.hpp>

#include <algorithm>
#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

/// Where units are claimed, beside the queue's scratch memory. Null if there is none, and none can
/// be had: in a graph capture.
unsigned* claims_of(executor& on) {
  if (on.scratch.exchange() == nullptr && runtime::is_capturing(on.stream)) {
    return nullptr;
  }
  on.scratch.at_least(1);  // for what is beside it
  exchange_memory* const exchange = on.scratch.exchange();
  return exchange == nullptr ? nullptr : &exchange->claimed;
}

template <class In, class Shape>
void launch(executor& on, const core::attention_problem& p, const attention_parts<float>& parts) {
  static_assert(Shape::rows == rows_of_groups);
  const std::int64_t units = parts.units(p);
  check_blocks(units);
  launch_shared(on.stream, attention_by_groups<In, Shape>,
                std::min<std::int64_t>(units, on.properties.multiprocessors), Shape::threads,
                Shape::shared_bytes, p, parts, attention_way::of(p), claims_of(on));
}

}  // namespace

template <class In>
void launch_by_groups(executor& on, const core::attention_problem& p,
                      const attention_parts<float>& parts) {
  const std::int64_t dims = largest_dim(p);
  dims <= 64    ? launch<In, group_shape<64, 128, 4>>(on, p, parts)
  : dims <= 128 ? launch<In, group_shape<128, 128, 3>>(on, p, parts)
                : launch<In, group_shape<256, 80, 2>>(on, p, parts);
}

template void launch_by_groups<half>(executor&, const core::attention_problem&,
                                     const attention_parts<float>&);
template void launch_by_groups<bfloat16>(executor&, const core::attention_problem&,
                                         const attention_parts<float>&);

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
