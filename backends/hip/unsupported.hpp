// SPDX-License-Identifier: Apache-2.0
/// \file
/// Launches that rows.hpp leaves to each backend and that this one lacks.
#pragma once

#include <gpu/rows.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// AMD GPUs have no clusters, so no plan asks for them.
template <int lanes, map_operation op, class In, class Out>
void launch_cluster_rows(const map_arguments<In, Out>&, const row_plan&, stream_handle) {
  throw error(errc::backend_failure, "launch: a plan for clusters on a device without them");
}

/// Nor, yet, for blocks that wait for each other.
template <int lanes, map_operation op, class In, class Out>
bool launch_chunks_together(const map_arguments<In, Out>&, exchange_memory*, stream_handle) {
  return false;
}
template <int lanes, map_operation op, class In, class Out>
bool launch_streamed_chunks(const map_arguments<In, Out>&, const row_plan&, exchange_memory*,
                            stream_handle) {
  return false;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
