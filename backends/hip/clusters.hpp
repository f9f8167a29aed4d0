// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gpu/rows.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// AMD GPUs have no clusters, so no plan asks for them.
template <int lanes, map_operation op, class In, class Out>
void launch_cluster_rows(const map_arguments<In, Out>&, const row_plan&, stream_handle) {
  throw error(errc::backend_failure, "launch: a plan for clusters on a device without them");
}

template <int lanes, map_operation op, class In, class Out>
void launch_streamed_rows(const map_arguments<In, Out>& call, const row_plan& plan,
                          stream_handle stream) {
  launch_cluster_rows<lanes, op>(call, plan, stream);
}

/// Nor for blocks that run at once.
template <int lanes, map_operation op, class In, class Out>
bool launch_rows_together(const map_arguments<In, Out>&, const row_plan&, state<arithmetic_t<In>>*,
                          unsigned*, stream_handle) {
  return false;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
