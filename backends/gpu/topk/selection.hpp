// SPDX-License-Identifier: Apache-2.0
/// \file
/// The top-k kernels for any k: one read of a row, by its own block or by one for each chunk, then
/// the selection by one block. Whether chunks are folded by one block or by many, a row's state has
/// the same bits.
#pragma once

#include <gpu/contract.hpp>
#include <gpu/topk/results.hpp>
#include <gpu/topk/row_selection.hpp>
#include <gpu/topk/scan.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Bytes of dynamic shared memory of topk_row, and where its parts lie.
template <class In, class Entry>
struct topk_layout {
  using T = arithmetic_t<In>;
  std::size_t entries, list, keys, warps, bytes;

  __host__ __device__ topk_layout(int capacity, bool own_entries, std::int64_t groups,
                                  bool own_keys, int warp_states, int list_size) {
    entries = 0;
    warps = own_entries ? static_cast<std::size_t>(capacity) * sizeof(Entry) : 0;
    keys = warps + static_cast<std::size_t>(warp_states) * sizeof(softmax_state<T>);
    keys = (keys + sizeof(block16) - 1) / sizeof(block16) * sizeof(block16);
    list = keys + (own_keys ? static_cast<std::size_t>(groups) * sizeof(key_t<In>) : 0);
    bytes = list + static_cast<std::size_t>(list_size) * sizeof(unsigned);
  }
};

/// One row, or the selection of one row whose chunks were scanned.
template <int lanes, competitors who, class In, class Entry>
__global__ void __launch_bounds__(512, least_resident(2)) topk_row(const topk_arguments<In> call) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using T = arithmetic_t<In>;
  using Key = key_t<In>;
  unsigned char* const shared = dynamic_shared_memory();
  __shared__ row_memory memory;
  __shared__ int counters[2];
  __shared__ chunk_memory<softmax_state<T>> fold;
  __shared__ shared_array<softmax_state<T>, 1> row_state;

  const std::int64_t row = blockIdx.x;
  const In* const x = call.x + row * call.x_stride;
  constexpr int warps = chunk_threads / lanes;  // of a chunk
  wait_for_launch_before();
  const bool scans = call.scans();
  const topk_layout<In, Entry> layout(call.capacity, call.entries == nullptr, call.groups,
                                      call.keys == nullptr, scans ? call.chunks * (warps + 1) : 0,
                                      0);
  Entry* const entries = call.entries == nullptr
                             ? reinterpret_cast<Entry*>(shared + layout.entries)
                             : static_cast<Entry*>(call.entries) + row * call.capacity;
  Key* const keys = call.keys == nullptr ? reinterpret_cast<Key*>(shared + layout.keys)
                                         : call.keys + row * call.groups;

  const int warp = static_cast<int>(threadIdx.x) / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const softmax_state<T>* parts = call.parts == nullptr ? nullptr : call.parts + row * call.chunks;
  if (scans) {
    auto* const warp_states = reinterpret_cast<softmax_state<T>*>(shared + layout.warps);
    softmax_state<T>* const chunk_states = warp_states + call.chunks * warps;
    const int at_once = static_cast<int>(blockDim.x) / chunk_threads;
    for (int chunk = warp / warps; chunk < call.chunks; chunk += at_once) {
      const softmax_state<T> own = scan_chunk<lanes, who>(call, x, chunk, keys);
      if (lane == 0) {
        warp_states[chunk * warps + warp % warps] = own;
      }
    }
    __syncthreads();
    if (call.folds) {  // as combine_over_block does for a chunk of its own block
      for (int chunk = warp; chunk < call.chunks; chunk += at_once * warps) {
        const softmax_state<T> whole =
            combine_states<lanes>(warp_states + chunk * warps, warps, call.states());
        if (lane == 0) {
          chunk_states[chunk] = whole;
        }
      }
      __syncthreads();
    }
    parts = chunk_states;
  }
  if (call.folds && (warp == 0 || call.chunks > most_chunks_read_by_all)) {
    const softmax_state<T> whole = combine_chunks<lanes>(parts, call.chunks, call.states(), fold);
    if (threadIdx.x == 0) {
      row_state[0] = whole;
    }
  }

  row_selection<lanes, who, In, Entry> selection(
      call, x, entries, reinterpret_cast<unsigned*>(shared + layout.list), memory, counters);
  __syncthreads();  // the row's state is there
  const softmax_state<T> whole = call.folds ? row_state[0] : softmax_state<T>{};
  selection.run(keys, [&](std::int64_t rank, const Entry& e) {
    write_ranked<Entry>(call, x, row, rank, e,
                        [&](T value) { return share_of_row<T>::of(call, whole)(value, call.map); });
  });
  if (threadIdx.x == 0) {
    write_state(call, row, whole);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
