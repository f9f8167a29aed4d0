// SPDX-License-Identifier: Apache-2.0
/// \file
/// gpu/reproducible/in_registers.hpp's rows by clusters.
#pragma once

#include "cluster.hpp"

#include <gpu/reproducible/in_registers.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

#if SOFTFOLD_GPU_HOPPER

template <int lanes, class Job, int V>
__global__ void __launch_bounds__((most_sharers<Job, V>), (resident_sharers<Job, V>))
    map_total_by_cluster(const Job job, int blocks, int part) {
  __shared__ shared_array<cluster_memory<total_state>, 2> exchanges;
  __shared__ row_memory<Job> memory;
  if (threadIdx.x < 2) {
    exchanges[threadIdx.x].arrived.initialise(1);
  }
  cluster::arrive();
  const std::int64_t row = cluster::number();
  const std::int64_t first = std::int64_t{cluster::rank()} * part;
  const std::int64_t rest = job.source.cols - first;
  auto own =
      job.template hold_part<lanes, V>(row, first, rest < part ? static_cast<int>(rest) : part);
  own.load_long();
  map_row<lanes>(
      job, own, row, blocks, memory, [] { cluster::wait(); },
      [&](const total_state& block, int look) {
        return combine_over_cluster<lanes, true>(block, total_monoid(), blocks, exchanges[look]);
      });
}

#else

template <int lanes, class Job, int V>
__global__ void map_total_by_cluster(const Job, int, int) {}

#endif

template <int lanes, class Job>
void launch_total_clusters(const Job& job, const row_plan& plan, stream_handle stream) {
  launch_clusters(stream, map_total_by_cluster<lanes, Job, 8>, job.source.rows, plan.blocks,
                  plan.threads, 0, job, plan.blocks, plan.part * Job::width);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
