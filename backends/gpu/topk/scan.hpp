// SPDX-License-Identifier: Apache-2.0
/// \file
/// The one read of a row before a selection: its state, and the keys of what competes for the k
/// best.
#pragma once

#include <gpu/group/fold_tile.hpp>
#include <gpu/topk/results.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The keys of a tile's elements, `size` vectors of which are the row's. `keys`, aligned to 16
/// bytes, has a place for each element of a vector.
template <class In>
__device__ inline void write_element_keys(const tile<In, 8>& own, int size,
                                          std::int64_t first_vector, key_t<In>* keys) {
  constexpr int width = vector_width<In>;
  auto* const to = reinterpret_cast<block16*>(keys + first_vector * width);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int v = own.number(j);
    if (v >= size) {
      break;
    }
    if constexpr (sizeof(key_t<In>) == 8) {
      const key_t<In> first = order_key(own.element(j, 0));
      const key_t<In> second = order_key(own.element(j, 1));
      to[v] = {{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(first >> 32),
                static_cast<std::uint32_t>(second), static_cast<std::uint32_t>(second >> 32)}};
    } else {
#pragma unroll
      for (int i = 0; i < width; i += 4) {
        to[(v * width + i) / 4] = {{order_key(own.element(j, i)), order_key(own.element(j, i + 1)),
                                    order_key(own.element(j, i + 2)),
                                    order_key(own.element(j, i + 3))}};
      }
    }
  }
}

/// The maxima of the groups of a tile's vectors, whose first is `first_vector` of the row.
/// Neighbour lanes halve the number of vectors that each of them goes on with, so that 8 vectors of
/// 8 lanes take 7 shuffles, not 24.
template <class In>
__device__ inline void write_group_maxima(const tile<In, 8>& own, int size, int group_vectors,
                                          std::int64_t first_vector, key_t<In>* keys) {
  using T = arithmetic_t<In>;
  const auto write = [&](int j, T largest) {
    const int v = own.number(j);
    if (v - v % group_vectors < size) {
      keys[(first_vector + v) / group_vectors] = order_key(largest);
    }
  };
  if (group_vectors == 1) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      write(j, own.max(j));
    }
    return;
  }
  const int lane = static_cast<int>(threadIdx.x);
  T largest[4];
  int first = 0;  // the number of the vector that largest[0] belongs to
  const auto exchanged = [&](T lower, T upper, int mask) {
    const bool keeps_upper = (lane & mask) != 0;
    return max_or_nan(keeps_upper ? upper : lower, shuffle_xor(keeps_upper ? lower : upper, mask));
  };
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    largest[i] = exchanged(own.max(i), own.max(i + 4), 1);
  }
  first += (lane & 1) != 0 ? 4 : 0;
  if (group_vectors == 2) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      write(first + i, largest[i]);
    }
    return;
  }
  largest[0] = exchanged(largest[0], largest[2], 2);
  largest[1] = exchanged(largest[1], largest[3], 2);
  first += (lane & 2) != 0 ? 2 : 0;
  if (group_vectors == 4) {
    write(first, largest[0]);
    write(first + 1, largest[1]);
    return;
  }
  largest[0] = exchanged(largest[0], largest[1], 4);
  first += (lane & 4) != 0 ? 1 : 0;
  if (group_vectors > 8) {
    largest[0] = max_or_nan(largest[0], shuffle_xor(largest[0], 8));
    largest[0] = max_or_nan(largest[0], shuffle_xor(largest[0], 16));
  }
  write(first, largest[0]);
}

/// What of a row competes for the k best.
enum class competitors : std::uint8_t {
  groups,    ///< groups of vectors by their maxima, then the elements of the best
  elements,  ///< all elements
};

/// A warp's part of a chunk, one of the chunk_threads threads that scan it: the keys of those that
/// compete, if `keys` is to have them, and the state where it is wanted.
template <int lanes, competitors who, class In>
__device__ inline softmax_state<arithmetic_t<In>> scan_chunk(const topk_arguments<In>& call,
                                                             const In* x, int chunk,
                                                             key_t<In>* keys) {
  const std::int64_t first = std::int64_t{chunk} * chunk_vectors;
  const vector_range<In> range(x, call.cols, call.memory, first, chunk_vectors);
  int thread = static_cast<int>(threadIdx.x) % chunk_threads;
  forget_origin(thread);  // or the vectors' places would be kept from chunk to chunk
  tile<In, chunk_vectors_each> own(range, thread, chunk_threads);
  own.template load_long();
  if (call.groups > 0) {
    if constexpr (who == competitors::groups) {
      write_group_maxima(own, range.size(), call.group_vectors, first, keys);
    } else {
      write_element_keys(own, range.size(), first, keys);
    }
  }
  if (!call.folds) {
    return {};
  }
  own.next_pass();
  own.apply(call.map);
  constexpr int skips = sizeof(In) == 4 ? 2 : 1;
  return fold_tile<lanes, precision::fast, false, skips>(own, call.scale, lanes, own.max());
}

/// A chunk of a row: its group maxima and its state, to global memory.
template <int lanes, class In>
__global__ void __launch_bounds__(chunk_threads) topk_scan_chunk(const topk_arguments<In> call) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using T = arithmetic_t<In>;
  __shared__ fold_memory<softmax_state<T>> memory;
  let_next_begin();
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(call.chunks);
  const int chunk = static_cast<int>(blockIdx.x % static_cast<unsigned>(call.chunks));
  const softmax_state<T> warp = scan_chunk<lanes, competitors::groups>(
      call, call.x + row * call.x_stride, chunk, call.keys + row * call.groups);
  if (call.folds) {
    const softmax_state<T> whole = combine_over_block<lanes>(warp, call.states(), memory);
    if (threadIdx.x == 0) {
      call.parts[blockIdx.x] = whole;
    }
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
