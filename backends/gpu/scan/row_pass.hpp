// SPDX-License-Identifier: Apache-2.0
/// \file
/// How a scan's warp goes through its part of a row: in tiles, in each of which lanes have a vector
/// of elements one after the other.
#pragma once

#include <gpu/contract.hpp>
#include <gpu/row/vector_elements.hpp>
#include <gpu/scan/arithmetic.hpp>
#include <gpu/state/exponential.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <int lanes, int of_lane, bool reverse, class In, class Out>
struct scan_row_pass {
  using input = In;
  using output = Out;
  static constexpr int lanes_of_warp = lanes;
  static constexpr int each = of_lane;            ///< elements of a lane
  static constexpr int width = vector_width<In>;  ///< of a tile, of a lane
  static constexpr int tiles = each / width;
  static constexpr int tile = lanes * width;
  static constexpr int of_warp = lanes * each;
  static constexpr int way = reverse ? -1 : 1;

  const In* x;  ///< the lane's first vector: its lowest column
  Out* y;       ///< the same
  int left;     ///< of_warp, or the row's elements of a step that ends it, which may be below 0
  int lane;
  In absent;         ///< what elements beyond the row count as; prepared, it is -infinity
  bool in_vectors;   ///< whole tiles can be read
  bool out_vectors;  ///< and written

  /// Of a warp whose first element is number `first` of a row.
  __device__ static scan_row_pass of(const In* row, Out* results, std::int64_t cols,
                                     std::int64_t first, int left, In absent) {
    const int lane = static_cast<int>(threadIdx.x) % lanes;
    const std::int64_t number = first + lane * width;
    const std::int64_t lowest = reverse ? cols - width - number : number;
    const auto aligned = [&](auto* to) {
      constexpr int bytes = width * static_cast<int>(sizeof(*to));
      constexpr int alignment = bytes < vector_bytes ? bytes : vector_bytes;
      return reinterpret_cast<std::uintptr_t>(to) % alignment == 0;
    };
    scan_row_pass pass;
    pass.x = row + lowest;
    pass.y = results + lowest;
    pass.left = left;
    pass.lane = lane;
    pass.absent = absent;
    pass.in_vectors = aligned(pass.x);
    pass.out_vectors = aligned(pass.y);
    return pass;
  }

  __device__ void advance(int elements, int left_there) {
    x += way * elements;
    y += way * elements;
    left = left_there;
  }

  struct vectors {
    block16 of_tile[tiles];  ///< as they lie in memory
  };
  /// whole: in_vectors, and the warp's elements are all there.
  __device__ vectors load(bool whole) const {
    vectors result;
    if (whole) [[likely]] {
#pragma unroll
      for (int t = 0; t < tiles; ++t) {
        result.of_tile[t] = vector(t);
      }
    } else {
#pragma unroll
      for (int t = 0; t < tiles; ++t) {
        result.of_tile[t] = load_tile(t);
      }
    }
    return result;
  }
  __device__ static void elements(const vectors& of, float (&to)[each]) {
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        to[t * width + k] = element(of.of_tile[t], k);
      }
    }
  }
  /// Those of a tile, which is read once more, prepared.
  __device__ void tile_again(int t, const scan_arithmetic& how, float (&to)[width]) const {
    const block16 of_tile = load_tile(t);
#pragma unroll
    for (int k = 0; k < width; ++k) {
      to[k] = element(of_tile, k);
    }
    how.prepare(to);
  }

  /// Finite results of whole tiles, where out_vectors.
  __device__ void store_whole(const float (&results)[each]) const {
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
      store_vectors(t, tile_of_results::of(results, t));
    }
  }
  __device__ void store(const float (&results)[each]) const {
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
      auto of_tile = tile_of_results::of(results, t);
#pragma unroll
      for (int k = 0; k < width; ++k) {
        of_tile.at[k] = canonical(of_tile.at[k]);
      }
      // Pairs of 16 bits are not rounded to the canonical NaN; after a NaN all are.
      const bool can_be_pairs = sizeof(Out) > 2 || of_tile.at[width - 1] == of_tile.at[width - 1];
      if (out_vectors && (t + 1) * tile <= left && can_be_pairs) {
        store_vectors(t, of_tile);
      } else {
        store_partly(*this, t, of_tile);
      }
    }
  }

 private:
  struct tile_of_results {
    float at[width];

    __device__ static tile_of_results of(const float (&results)[each], int t) {
      tile_of_results tile;
#pragma unroll
      for (int k = 0; k < width; ++k) {
        tile.at[k] = results[t * width + k];
      }
      return tile;
    }
  };

  [[nodiscard]] __device__ static float element(const block16& vector, int k) {
    return element_of<In>(vector, reverse ? width - 1 - k : k);
  }
  [[nodiscard]] __device__ block16 vector(int t) const {
    return load_vector<false>(reinterpret_cast<const block16*>(x + way * t * tile));
  }
  [[nodiscard]] __device__ block16 load_tile(int t) const {
    return in_vectors && (t + 1) * tile <= left ? vector(t) : load_partly(*this, t);
  }
  /// The column of a tile's element k, from the lane's first vector on.
  [[nodiscard]] __device__ static int offset(int t, int k) {
    return way * t * tile + (reverse ? width - 1 - k : k);
  }
  [[nodiscard]] __device__ int number(int t, int k) const { return (t * lanes + lane) * width + k; }
  SOFTFOLD_OUT_OF_LINE __device__ static block16 load_partly(const scan_row_pass pass, int t) {
    block16 result{};
#pragma unroll
    for (int k = 0; k < width; ++k) {
      set_element(result, reverse ? width - 1 - k : k,
                  pass.number(t, k) < pass.left ? pass.x[offset(t, k)] : pass.absent);
    }
    return result;
  }
  __device__ void store_vectors(int t, const tile_of_results& results) const {
    constexpr int bytes = width * static_cast<int>(sizeof(Out));
    Out* const to = y + way * t * tile;
    constexpr int of_vector = bytes < vector_bytes ? width : vector_width<Out>;
#pragma unroll
    for (int begin = 0; begin < width; begin += of_vector) {
      const block16 vector = packed<Out>([&](int i) {
        const int k = begin + i % of_vector;
        return results.at[reverse ? width - 1 - k : k];
      });
      if constexpr (bytes < vector_bytes) {
        store_part(to, vector, 0, bytes);
      } else {
        store_vector(reinterpret_cast<block16*>(to + begin), vector);
      }
    }
  }
  SOFTFOLD_OUT_OF_LINE __device__ static void store_partly(const scan_row_pass pass, int t,
                                                           const tile_of_results results) {
#pragma unroll
    for (int k = 0; k < width; ++k) {
      if (pass.number(t, k) < pass.left) {
        pass.y[offset(t, k)] = Out(results.at[k]);
      }
    }
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
