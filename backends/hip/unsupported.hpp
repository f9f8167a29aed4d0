// SPDX-License-Identifier: Apache-2.0
/// \file
/// Plans that map/run.hpp and reduce/run.hpp leave to each backend and that this one lacks.
#pragma once

#include <gpu/map/run.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// AMD GPUs have no clusters, so no plan asks for them.
template <int lanes, class Job>
void launch_cluster_rows(const Job&, const row_plan&, stream_handle) {
  throw error(errc::backend_failure, "launch: a plan for clusters on a device without them");
}
template <int lanes, class Fold>
void launch_clustered_reduction(const Fold& fold, const row_plan& plan,
                                const typename Fold::results&, stream_handle stream) {
  launch_cluster_rows<lanes>(fold, plan, stream);
}
template <int lanes, class Job>
void launch_total_clusters(const Job& job, const row_plan& plan, stream_handle stream) {
  launch_cluster_rows<lanes>(job, plan, stream);
}

/// Nor, yet, for blocks that wait for each other.
template <int lanes, class Job>
void launch_clustered_chunks(const Job& job, const row_plan& plan, stream_handle stream) {
  launch_cluster_rows<lanes>(job, plan, stream);
}
template <int lanes, class Job>
bool launch_chunks_together(const Job&, const row_plan&, exchange_memory*, stream_handle) {
  return false;
}
template <int lanes, class Job>
bool launch_ring_of_chunks(const Job&, const row_plan&, exchange_memory*, stream_handle) {
  return false;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
