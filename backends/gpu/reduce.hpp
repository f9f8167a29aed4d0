// SPDX-License-Identifier: Apache-2.0
/// \file
/// Folds of states over lanes, a block and a cluster. The maximum goes first over the lanes of a
/// warp, so that each warp's exponentials have one frame; warps and blocks then combine (max, sum)
/// pairs in one exchange.
#pragma once

#include "device.hpp"
#include "state.hpp"

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Over groups of `lanes` lanes, a power of two; every lane gets the result. log2(lanes) shuffles.
template <class T>
__device__ inline T max_over_lanes(T value, int lanes) {
  for (int mask = lanes / 2; mask > 0; mask /= 2) {
    value = max_or_nan(value, shuffle_xor(value, mask));
  }
  return value;
}

template <class T>
__device__ inline T sum_over_lanes(T value, int lanes) {
  for (int mask = lanes / 2; mask > 0; mask /= 2) {
    value += shuffle_xor(value, mask);
  }
  return value;
}

/// The combination of `count` states in shared or global memory, by all lanes of a warp; every
/// lane gets the result. The order depends on `count` and `lanes` only.
template <int lanes, class T>
__device__ inline state<T> combine_states(const state<T>* states, int count, T scale) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  state<T> own;
  for (int i = lane; i < count; i += lanes) {
    own.max = max_or_nan(own.max, states[i].max);
  }
  const T max = max_over_lanes(own.max, lanes);
  const frame<T> whole = frame<T>::of(max, scale);
  T sum = 0;
  for (int i = lane; i < count; i += lanes) {
    sum += states[i].sum * states[i].factor(max, whole);
  }
  return {max, sum_over_lanes(sum, lanes)};
}

/// Shared memory of a block's fold.
inline constexpr int most_warps = 32;
inline constexpr int most_cluster_blocks = 16;
template <class T, bool clustered>
struct fold_memory {
  state<T> warps[most_warps];
  state<T> blocks[clustered ? most_cluster_blocks : 1];
};

/// The combination of the states of a block's warps, and of the blocks of its cluster. All threads
/// call it, each lane with its warp's state, once in a kernel for each `memory`.
template <int lanes, bool clustered, class T>
__device__ inline state<T> combine_over_block(const state<T>& warp, T scale,
                                              fold_memory<T, clustered>& memory) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int own = static_cast<int>(threadIdx.x) / lanes;
  const int warps = static_cast<int>(blockDim.x) / lanes;
  if (warps > 1) {
    if (lane == 0) {
      memory.warps[own] = warp;
    }
    __syncthreads();
  }
  const state<T> block = warps > 1 ? combine_states<lanes>(memory.warps, warps, scale) : warp;
  if constexpr (clustered) {
    const unsigned blocks = cluster::size();
    cluster::wait();  // for the arrival at the kernel's start: every block is there
    if (threadIdx.x < blocks) {
      constexpr int words = sizeof(state<T>) / 4;
      std::uint32_t bits[words];
      memcpy(bits, &block, sizeof(block));
      auto* const slot = reinterpret_cast<std::uint32_t*>(&memory.blocks[cluster::rank()]);
      for (int i = 0; i < words; ++i) {
        cluster::write(slot + i, threadIdx.x, bits[i]);
      }
    }
    cluster::arrive();
    cluster::wait();
    return combine_states<lanes>(memory.blocks, static_cast<int>(blocks), scale);
  }
  return block;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
