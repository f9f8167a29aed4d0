// SPDX-License-Identifier: Apache-2.0
/// \file
/// How a scan's warp goes through its part of a row: in tiles, in each of which lanes have a vector
/// of elements one after the other.
#pragma once

#include <gpu/contract.hpp>
#include <gpu/row/vector_elements.hpp>
#include <gpu/scan/arithmetic.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The logsumexps of a thread's elements.
struct scan_results {
  float at[scan_each];
};

template <int lanes, bool reverse, class In, class Out>
struct scan_row_pass {
  static constexpr int width = vector_width<In>;  ///< of a tile, of a lane
  static constexpr int tiles = scan_each / width;
  static constexpr int of_warp = lanes * scan_each;
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
  /// Where element i of the warp is, from the lane's first vector on.
  [[nodiscard]] __device__ int offset(int i) const {
    return way * (i - lane * width) + (reverse ? width - 1 : 0);
  }
  [[nodiscard]] __device__ float element(int i) const {
    return widen(i < left ? x[offset(i)] : absent);
  }
  __device__ void put(int i, float result) const {
    if (i < left) {
      y[offset(i)] = Out(result);
    }
  }

  struct vectors {
    block16 of_tile[tiles];  ///< as they lie in memory
  };
  __device__ vectors load() const {
    if (!(in_vectors && left == of_warp)) {
      return load_partly(*this);
    }
    vectors result;
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
      result.of_tile[t] =
          load_vector<false>(reinterpret_cast<const block16*>(x + way * t * lanes * width));
    }
    return result;
  }
  __device__ static void elements(const vectors& of, float (&to)[scan_each]) {
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        to[t * width + k] = element_of<In>(of.of_tile[t], reverse ? width - 1 - k : k);
      }
    }
  }

  /// Results of tiles, finite ones.
  __device__ void store(const scan_results& results) const {
    constexpr int bytes = width * static_cast<int>(sizeof(Out));
    if (!(out_vectors && left == of_warp)) {
      return store_partly(*this, results);
    }
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
      Out* const to = y + way * t * lanes * width;
      constexpr int each = bytes < vector_bytes ? width : vector_width<Out>;
#pragma unroll
      for (int begin = 0; begin < width; begin += each) {
        const block16 vector = packed<Out>([&](int i) {
          const int k = begin + i % each;
          return results.at[t * width + (reverse ? width - 1 - k : k)];
        });
        if constexpr (bytes < vector_bytes) {
          store_part(to, vector, 0, bytes);
        } else {
          store_vector(reinterpret_cast<block16*>(to + begin), vector);
        }
      }
    }
  }

  /// Elements and results that a lane has one after the other, without tiles.
  __device__ void load_singly(float (&to)[scan_each]) const {
#pragma unroll
    for (int k = 0; k < scan_each; ++k) {
      to[k] = element(lane * scan_each + k);
    }
  }
  __device__ void store_singly(const scan_results& results) const {
#pragma unroll
    for (int k = 0; k < scan_each; ++k) {
      put(lane * scan_each + k, results.at[k]);
    }
  }

 private:
  SOFTFOLD_OUT_OF_LINE __device__ static vectors load_partly(const scan_row_pass pass) {
    vectors result{};
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        const int i = (t * lanes + pass.lane) * width + k;
        set_element(result.of_tile[t], reverse ? width - 1 - k : k,
                    i < pass.left ? pass.x[pass.offset(i)] : pass.absent);
      }
    }
    return result;
  }
  SOFTFOLD_OUT_OF_LINE __device__ static void store_partly(const scan_row_pass pass,
                                                           const scan_results results) {
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
#pragma unroll
      for (int k = 0; k < width; ++k) {
        pass.put((t * lanes + pass.lane) * width + k, results.at[t * width + k]);
      }
    }
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
