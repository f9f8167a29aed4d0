// SPDX-License-Identifier: Apache-2.0
/// \file
/// Plan block: a block holds a row in its registers. One read and one write.
#pragma once

#include <gpu/group/combine.hpp>
#include <gpu/map/prefetch.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <int lanes, bool plain, class Job, int V>
__global__ void __launch_bounds__(row_threads,
                                  least_resident(sizeof(typename Job::fold_type::element) == 8 ? 1
                                                                                               : 2))
    map_row_by_block(const Job job) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  constexpr bool keep = Job::template keeps_parts<V>;
  constexpr bool short_code = sizeof(typename Job::fold_type::element) <= 4;
  __shared__ fold_memory<typename Job::state> memory;
  const auto& fold = job.fold;
  const std::int64_t row = blockIdx.x;
  const auto range = fold.source.range(row, true, plain ? known_to_be_aligned : sector_bytes);
  auto own = fold.template hold<V, plain>(row, range, static_cast<int>(threadIdx.x),
                                          static_cast<int>(blockDim.x));
  own.load_long();
  fold.edit(own);
  const auto warp = fold.template fold_part<lanes, Job::of_parts, keep>(own);
  const auto whole = combine_over_block<lanes, short_code>(warp, fold.states(), memory);
  prefetch_successor(fold, own, range.base, range.size(), row, 1);
  job.template write<keep, true>(own, job.y + row * job.y_stride - range.head, job.result_of(whole),
                                 warp);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
