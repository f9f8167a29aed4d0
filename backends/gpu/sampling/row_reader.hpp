// SPDX-License-Identifier: Apache-2.0
/// \file
/// The elements of a row as f32 numbers, as many at a time as share a block of noise.
#pragma once

#include <gpu/row/removals.hpp>
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
  /// Those from first on, from first + step on, and so on.
  template <int times>
  __device__ void load(std::int64_t first, std::int64_t step,
                       float (&to)[times][race_columns]) const {
#pragma unroll
    for (int a = 0; a < times; ++a) {
      load(first + a * step, to[a]);
    }
  }
  [[nodiscard]] __device__ float element(std::int64_t column) const { return widen(x[column]); }
};

/// The same of a row of which elements may be removed; these are -infinity.
template <class In>
struct masked_reader {
  row_reader<In> row;
  kept_columns kept;
  std::int64_t cols;

  __device__ static masked_reader of(const row_reader<In>& row, const kept_columns& kept) {
    return {row, kept, row.cols};
  }
  __device__ void load(std::int64_t first, float (&to)[race_columns]) const {
    float once[1][race_columns];
    load(first, 0, once);
#pragma unroll
    for (int i = 0; i < race_columns; ++i) {
      to[i] = once[0][i];
    }
  }
  /// What is removed whole is not read.
  template <int times>
  __device__ void load(std::int64_t first, std::int64_t step,
                       float (&to)[times][race_columns]) const {
    std::uint32_t bits[times];
    find(first, step, bits);
#pragma unroll
    for (int a = 0; a < times; ++a) {
#pragma unroll
      for (int i = 0; i < race_columns; ++i) {
        to[a][i] = -infinity<float>;
      }
      if (bits[a] != 0) {
        row.load(first + a * step, to[a]);
      }
    }
#pragma unroll
    for (int a = 0; a < times; ++a) {
#pragma unroll
      for (int i = 0; i < race_columns; ++i) {
        to[a][i] = (bits[a] >> i & 1U) != 0 ? to[a][i] : -infinity<float>;
      }
    }
  }
  [[nodiscard]] __device__ float element(std::int64_t column) const {
    std::uint32_t bits[1];
    find(column / race_columns * race_columns, 0, bits);
    return (bits[0] >> column % race_columns & 1U) != 0 ? row.element(column) : -infinity<float>;
  }

 private:
  template <int times>
  __device__ void find(std::int64_t first, std::int64_t step, std::uint32_t (&bits)[times]) const {
    static_assert(race_columns == 8);
    const auto number = [&](int a) { return static_cast<int>((first + a * step) / race_columns); };
    kept.template find<race_columns>(bits, number, [&](int a) { return first + a * step < cols; });
#pragma unroll
    for (int a = 0; a < times; ++a) {
      bits[a] &= kept.template inside<race_columns>(number(a));
    }
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
