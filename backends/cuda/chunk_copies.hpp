// SPDX-License-Identifier: Apache-2.0
/// \file
/// Chunks of rows in shared memory: where their vectors are, and their copies in bulk.
#pragma once

#include "hopper.hpp"

#include <gpu/group/combine.hpp>
#include <gpu/row/removals.hpp>
#include <gpu/row/vector_range.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

#if SOFTFOLD_GPU_HOPPER

/// Starts the copy of a chunk's vectors, by all lanes of a warp: in bulk, but for the matrix's
/// first and last vector, if they are not whole. The first lane arrives at the barrier.
template <class In>
__device__ inline void start_copy(const vector_range<In>& range, transfer_barrier& arrived,
                                  block16* to) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int size = range.size();
  const bool begins_later = range.head >= vector_range<In>::width;
  const int first = range.readable(0) ? 0 : begins_later && !range.readable(1) ? 2 : 1;
  const int last = size > 0 && range.readable(size - 1) ? size : size - 1;
  const int edge = lane == 0 ? first - 1 : last;
  if (lane < 2 && edge >= 0 && edge < size) {
    to[edge] = load_elements(range, edge);
  }
  synchronize_warp();
  if (lane != 0) {
    return;
  }
  if (last > first) {
    arrived.copy(to + first, range.base + first * vector_range<In>::width,
                 static_cast<unsigned>(last - first) * sizeof(block16));
  } else {
    arrived.arrive();
  }
}

/// The same of a chunk of whole vectors of which columns are removed: not of what is removed before
/// its first and after its last vector, and if a mask of bits leaves little, only of vectors with
/// something left, by all lanes.
template <class In>
__device__ inline void start_copy(const vector_range<In>& range, const kept_columns& kept,
                                  transfer_barrier& arrived, block16* to) {
  constexpr int width = vector_width<In>;
  constexpr int lines = chunk_vectors / line_vectors / 32;  // of a lane
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto* const from = reinterpret_cast<const block16*>(range.base);
  const int size = range.size();
  const int first = kept.first > 0 ? kept.first / width : 0;
  const int last = kept.last < size * width ? (kept.last + width - 1) / width : size;
  if (kept.mask != nullptr && !kept.bytes) {
    std::uint32_t left[lines];
    int count = 0;
#pragma unroll
    for (int k = 0; k < lines; ++k) {
      left[k] = kept.template vectors_left<width>(k * 32 + lane, last);
      count += count_bits(left[k]);
    }
    if (4 * sum_over_lanes(count, 32) < size) {
#pragma unroll
      for (int k = 0; k < lines; ++k) {
        for (; left[k] != 0; left[k] &= left[k] - 1) {
          const int v = (k * 32 + lane) * line_vectors + lowest_bit(left[k]);
          copy_ahead(to + v, from + v);
        }
      }
      arrived.count_copies();
      synchronize_warp();
      if (lane == 0) {
        arrived.arrive();
      }
      return;
    }
  }
  if (lane == 0) {
    if (last > first) {
      arrived.copy(to + first, from + first, static_cast<unsigned>(last - first) * sizeof(block16));
    } else {
      arrived.arrive();
    }
  }
}

/// A chunk of a row of a job's matrices, and its slot in shared memory, slot_vectors_of(matrices)
/// vectors that begin at a line of 128 bytes. A matrix's vectors lie in lines as they do in global
/// memory. Kernels that have one take their job as a __grid_constant__: nvcc 13.0 has taken the
/// matrix for local memory where `fold` was part of a copy there.
template <class Fold>
struct copied_chunk {
  using element = typename Fold::element;
  using range_type = vector_range<element>;
  static constexpr int matrices = Fold::matrices;
  static_assert(matrices <= 2);

  const Fold& fold;
  std::int64_t row;
  range_type range;
  block16* slot;

  [[nodiscard]] __device__ block16* vectors() const { return slot + number_in_line(range.base); }
  /// The same of the other matrix. Its chunk begins `shift_beside` bytes behind the first's begin.
  [[nodiscard]] __device__ block16* vectors_beside() const {
    return slot + copy_vectors_of(matrices) + number_in_line(fold.beside(row, range).base);
  }
  [[nodiscard]] __device__ int shift_beside() const {
    const auto address = reinterpret_cast<std::uintptr_t>(fold.beside(row, range).base);
    return static_cast<int>(address % vector_bytes);
  }

  /// Starts the copies, by all lanes of a warp, of which the first arrives once for each matrix.
  __device__ void start(transfer_barrier& arrived) const {
    if constexpr (Fold::only_plain) {
      start_copy(range, fold.kept(row, range), arrived, vectors());
    } else {
      start_copy(range, arrived, vectors());
    }
    if constexpr (matrices > 1) {
      const int shift = shift_beside() / static_cast<int>(sizeof(element));
      range_type beside = fold.beside(row, range);
      beside.base -= shift;
      beside.head += shift;
      beside.end += range.end > 0 ? shift : 0;
      start_copy(beside, arrived, vectors_beside());
    }
  }
  /// Takes what a thread holds of the chunk from the copies.
  template <class Held>
  __device__ void load(Held& own) const {
    if constexpr (matrices > 1) {
      own.load(vectors(), vectors_beside(), own.alike ? 0 : shift_beside());
    } else {
      own.load(vectors());
    }
  }

 private:
  __device__ static int number_in_line(const element* base) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(base) / vector_bytes % line_vectors);
  }
};

#endif

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
