// SPDX-License-Identifier: Apache-2.0
/// \file
/// Plan cluster: rows that are too long for one block's registers: the blocks of a
/// cluster hold a part each, and send each other their states. One read and one write of each row.
#pragma once

#include "chunk_copies.hpp"
#include "cluster_memory.hpp"

#include <gpu/map/run.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

#if SOFTFOLD_GPU_HOPPER

/// The combination of the states of a cluster's blocks, by the first warp of each, which has its
/// block's state. Nothing is ordered but the states, so that stores under way need not end first.
/// `short_code`: see combine_up_to_lanes; it takes a few registers more, which the kernels that are
/// not plain do not have.
template <int lanes, bool short_code, class Monoid>
__device__ inline typename Monoid::value_type combine_over_cluster(
    const typename Monoid::value_type& block, const Monoid& monoid, int blocks,
    cluster_memory<typename Monoid::value_type>& memory) {
  if (threadIdx.x == 0) {
    memory.arrived.arrive_and_expect(static_cast<unsigned>(blocks * sizeof block));
  }
  if (threadIdx.x < static_cast<unsigned>(blocks)) {
    memory.arrived.send(&memory.blocks[cluster::rank()], block, static_cast<int>(threadIdx.x));
  }
  memory.arrived.wait_for_cluster(0);
  return combine_up_to_lanes<lanes, short_code>(memory.blocks.data(), blocks, monoid);
}

/// A row by a cluster. No block has to wait for the others at its end: what is sent to it has come
/// when it leaves combine_over_cluster.
template <int lanes, bool plain, class Job, int V>
__global__ void __launch_bounds__(cluster_threads,
                                  sizeof(typename Job::fold_type::element) == 8 ? 2 : 4)
    map_row_by_cluster(const Job job, int blocks, int part) {
  using state = typename Job::state;
  constexpr bool keep = Job::template keeps_parts<V>;
  __shared__ cluster_memory<state> states;
  __shared__ fold_memory<state> memory;
  __shared__ shared_array<typename Job::result, 1> result;
  if (threadIdx.x == 0) {
    states.arrived.initialise(1);
  }
  cluster::arrive();
  const auto& fold = job.fold;
  const std::int64_t row = cluster::number();
  const auto* const x = fold.source.row(row);
  const auto range = fold.source.range(row, std::int64_t{cluster::rank()} * part, part,
                                       plain                          ? known_to_be_aligned
                                       : Job::fold_type::matrices > 1 ? vector_bytes
                                                                      : sector_bytes);
  int column = static_cast<int>(range.base - x);  // of the part
  if constexpr (!keep) {
    forget_origin(column);  // or the registers that the elements leave would hold its factors
  }
  auto own = fold.template hold<V, plain>(row, range, static_cast<int>(threadIdx.x),
                                          static_cast<int>(blockDim.x));
  own.load_long();
  fold.edit(own);
  const state warp = fold.template fold_part<lanes, Job::of_parts, keep>(own);
  if (threadIdx.x % lanes == 0) {
    memory.warps[threadIdx.x / lanes] = warp;
  }
  cluster::wait();
  __syncthreads();
  // One warp combines: if all did, they would take the other blocks' instructions, in waiting, too.
  if (threadIdx.x < lanes) {
    const state block = combine_up_to_lanes<lanes, plain>(
        memory.warps.data(), static_cast<int>(blockDim.x) / lanes, fold.states());
    const state whole = combine_over_cluster<lanes, plain>(block, fold.states(), blocks, states);
    if (threadIdx.x == 0) {
      result[0] = job.result_of(whole);
    }
  }
  __syncthreads();
  const auto* const base = keep ? range.base : x + column;
  prefetch_successor(fold, own, base, range.size(), row, blocks);
  job.template write<keep, true>(own, job.y + row * job.y_stride + (base - x), result[0].folded(),
                                 warp);
}

/// A row of chunks by a cluster, a block for each. The same bits as by other passes over chunks.
template <int lanes, bool plain, class Job>
__global__ void __launch_bounds__(chunk_threads,
                                  resident_chunks(sizeof(typename Job::fold_type::element), 1))
    map_clustered_chunks(const Job job, int chunks) {
  using state = typename Job::state;
  __shared__ cluster_memory<state> states;
  __shared__ fold_memory<state> warps;
  __shared__ shared_array<typename Job::result, 1> result;
  if (threadIdx.x == 0) {
    states.arrived.initialise(1);
  }
  cluster::arrive();
  const auto& fold = job.fold;
  const std::int64_t row = cluster::number();
  const auto* const x = fold.source.row(row);
  const auto range = fold.source.range(row, std::int64_t{cluster::rank()} * chunk_vectors,
                                       chunk_vectors, plain ? known_to_be_aligned : vector_bytes);
  auto own = fold.template hold<chunk_vectors_each, plain>(
      row, range, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  own.load_long();
  fold.edit(own);
  const state warp = fold.template fold_part<lanes, precision::fast, false>(own);
  if (threadIdx.x % lanes == 0) {
    warps.warps[threadIdx.x / lanes] = warp;
  }
  cluster::wait();
  __syncthreads();
  if (threadIdx.x < lanes) {
    const state block =
        combine_states<lanes>(warps.warps.data(), chunk_threads / lanes, fold.states());
    const state whole = combine_over_cluster<lanes, false>(block, fold.states(), chunks, states);
    if (threadIdx.x == 0) {
      result[0] = job.result_of(whole);
    }
  }
  __syncthreads();
  job.template write<false, true>(own, job.y + row * job.y_stride + (range.base - x),
                                  result[0].folded(), {});
}

/// The same of a few chunks by each block, `each` but for the last: the first in registers, the
/// others in shared memory.
template <int lanes, bool plain, class Job>
__global__ void __launch_bounds__(chunk_threads, sizeof(typename Job::fold_type::element) == 8 ? 2
                                                 : plain                                       ? 4
                                                                                               : 3)
    map_held_chunks(const __grid_constant__ Job job, int chunks, int blocks, int each) {
  using state = typename Job::state;
  using fold_type = typename Job::fold_type;
  constexpr int matrices = fold_type::matrices;
  constexpr int vectors = chunk_vectors_of(matrices);
  constexpr int warps = chunk_threads / lanes;
  __shared__ shared_array<cluster_memory<state, most_chunks_held>, 1> memory;
  __shared__ shared_array<state, most_chunks_held * warps> of_warps;
  __shared__ shared_array<transfer_barrier, most_chunks_held> copied;
  __shared__ shared_array<typename Job::result, 1> result;
  auto& states = memory[0];
  auto* const slots = reinterpret_cast<block16*>(dynamic_shared_memory());
  const auto& fold = job.fold;
  const std::int64_t row = cluster::number();
  const int first = cluster::rank() * each;
  const int count = chunks - first < each ? chunks - first : each;
  const int thread = static_cast<int>(threadIdx.x);
  const auto chunk_at = [&](int i) {
    return copied_chunk<fold_type>{
        fold, row,
        fold.source.range(row, std::int64_t{first + i} * vectors, vectors,
                          plain ? known_to_be_aligned : vector_bytes),
        slots + (i - 1) * slot_vectors_of(matrices)};
  };
  const auto hold = [&](const auto& chunk) {
    auto own = fold.template hold<chunk_vectors_each_of(matrices), plain>(row, chunk.range, thread,
                                                                          chunk_threads);
    if constexpr (matrices > 1) {
      own.alike = true;  // or the plan were another
    }
    return own;
  };
  const auto fold_chunk = [&](auto& own, int i) {
    fold.edit(own);
    const state warp = fold.template fold_part<lanes, precision::fast, false>(own);
    if (thread % lanes == 0) {
      of_warps[i * warps + thread / lanes] = warp;
    }
  };
  if (thread == 0) {
    states.arrived.initialise(1);
    for (int i = 1; i < count; ++i) {
      copied[i].initialise(matrices);
    }
  }
  cluster::arrive();
  if (thread < lanes) {
    synchronize_warp();
    for (int i = 1; i < count; ++i) {
      chunk_at(i).start(copied[i]);
    }
  }
  auto own = hold(chunk_at(0));
  own.load_long();
  __syncthreads();  // the copies' barriers are there
  fold_chunk(own, 0);
#pragma unroll 1
  for (int i = 1; i < count; ++i) {
    const auto chunk = chunk_at(i);
    auto other = hold(chunk);
    copied[i].wait(0);
    chunk.load(other);
    fold_chunk(other, i);
  }
  cluster::wait();
  __syncthreads();
  if (thread < lanes) {
    static_assert(warps <= few_states && most_chunks_held * few_states <= lanes);
    const int i = thread / few_states;  // the chunk of some lanes, which combine its warps' states
    const state chunk =
        combine_states<lanes>(of_warps.data() + (i < count ? i : 0) * warps, warps, fold.states());
    if (thread == 0) {
      states.arrived.arrive_and_expect(static_cast<unsigned>(chunks * sizeof chunk));
    }
    if (i < count) {
      for (int to = thread % few_states; to < blocks; to += few_states) {
        states.arrived.send(&states.blocks[first + i], chunk, to);
      }
    }
    states.arrived.wait_for_cluster(0);
    const state whole = combine_states<lanes>(states.blocks.data(), chunks, fold.states());
    if (thread == 0) {
      result[0] = job.result_of(whole);
    }
  }
  __syncthreads();
  auto* const to = job.y + row * job.y_stride;
  const auto* const x = fold.source.row(row);
  job.template write<false, true>(own, to + (chunk_at(0).range.base - x), result[0].folded(), {});
#pragma unroll 1
  for (int i = 1; i < count; ++i) {
    const auto chunk = chunk_at(i);
    auto other = hold(chunk);
    chunk.load(other);
    fold.edit(other);
    job.template write<false, true>(other, to + (chunk.range.base - x), result[0].folded(), {});
  }
}

#else

template <int lanes, bool plain, class Job, int V>
__global__ void map_row_by_cluster(const Job, int, int) {}
template <int lanes, bool plain, class Job>
__global__ void map_held_chunks(const Job, int, int, int) {}
template <int lanes, bool plain, class Job>
__global__ void map_clustered_chunks(const Job, int) {}

#endif

template <int lanes, class Job>
void launch_cluster_rows(const Job& job, const row_plan& plan, stream_handle stream) {
  constexpr int matrices = Job::fold_type::matrices;
  with_plain_long(job, [&](auto plain) {
    const auto launch = [&](auto kernel) {
      launch_clusters(stream, kernel, job.fold.source.rows, plan.blocks, plan.threads, 0, job,
                      plan.blocks, plan.part);
    };
    if constexpr (matrices == 1 && sizeof(typename Job::fold_type::element) == 8) {
      throw error(errc::backend_failure, "launch: a plan that shares a row of f64");
    } else {
      launch(map_row_by_cluster<lanes, plain(), Job, 8 / matrices>);
    }
  });
}

template <int lanes, class Job>
void launch_clustered_chunks(const Job& job, const row_plan& plan, stream_handle stream) {
  constexpr int matrices = Job::fold_type::matrices;
  const auto each = static_cast<int>(divide_up(plan.chunks, plan.blocks));
  with_plain_long(job, [&](auto plain) {
    const auto launch = [&](auto kernel, std::size_t shared_vectors, auto... numbers) {
      launch_clusters(stream, kernel, job.fold.source.rows, plan.blocks, chunk_threads,
                      shared_vectors * sizeof(block16), job, numbers...);
    };
    if constexpr (matrices == 1) {
      launch(map_clustered_chunks<lanes, plain(), Job>, 0, plan.chunks);
    } else if (each == 1) {
      launch(map_row_by_cluster<lanes, plain(), Job, chunk_vectors_each_of(matrices)>, 0,
             plan.blocks, chunk_vectors_of(matrices));
    } else {
      launch(map_held_chunks<lanes, plain(), Job>,
             static_cast<std::size_t>((each - 1) * slot_vectors_of(matrices)), plan.chunks,
             plan.blocks, each);
    }
  });
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
