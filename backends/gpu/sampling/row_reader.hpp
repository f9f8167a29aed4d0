// SPDX-License-Identifier: Apache-2.0
/// \file
/// The elements of a row as f32 numbers, as many at a time as share a block of noise.
#pragma once

#include <gpu/row/vector_elements.hpp>

#include <core/sampling.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

constexpr int race_columns = core::sampling::block_tokens;  ///< consecutive ones of a thread

/// A row's elements by f32 numbers, race_columns at a time.
template <class In>
struct row_reader {
  const In* x;
  std::int64_t cols;
  bool in_vectors;  ///< race_columns elements from a multiple of that on are whole vectors

  __device__ static row_reader of(const In* x, std::int64_t cols) {
    return {x, cols, reinterpret_cast<std::uintptr_t>(x) % vector_bytes == 0};
  }
  /// Those beyond the row are -infinity.
  __device__ void load(std::int64_t first, float (&to)[race_columns]) const {
    if (in_vectors && first + race_columns <= cols) {
      constexpr int width = vector_width<In>;
#pragma unroll
      for (int v = 0; v < race_columns / width; ++v) {
        const block16 vector = load_vector<true>(reinterpret_cast<const block16*>(x + first) + v);
#pragma unroll
        for (int i = 0; i < width; ++i) {
          to[v * width + i] = element_of<In>(vector, i);
        }
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < race_columns; ++i) {
      to[i] = first + i < cols ? widen(x[first + i]) : -infinity<float>;
    }
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
