// SPDX-License-Identifier: Apache-2.0
/// \file
/// Rows that registers hold as term_tiles: of f32 arithmetic and a scale above 0.
#pragma once

#include <gpu/job/row_source.hpp>
#include <gpu/reproducible/term_tile.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Whether a least element of term_function is a number.
inline bool has_tiles(double scale) {
  constexpr double smallest = 0x1p-60;
  return scale >= smallest && scale <= 1 / smallest;
}

/// `plain`: rows of the scale 1, of whole vectors.
template <class In, bool plain>
struct tiled_rows {
  static constexpr bool is_plain = plain;
  static constexpr int width = vector_width<In>;
  /// Of the vectors that a warp has room for, those that hold its neighbours' packets.
  static constexpr int shared_vectors = plain ? 0 : 2;
  template <int V>
  using held = term_tile<In, V, plain>;

  row_source<In> source;
  float scale;

  /// Columns of a warp with V vectors a lane.
  template <int lanes, int V>
  static constexpr int warp_columns = (lanes * V - shared_vectors) * width;

  /// Share number `number`, of `each` columns, of `cols` columns of a row from `first` on, by the
  /// calling group of lanes.
  template <int V>
  [[nodiscard]] __device__ held<V> hold(std::int64_t row, std::int64_t first, int cols, int number,
                                        int each, int lanes) const {
    const int before = number * each;
    const int rest = cols - before;
    return {vector_range<In>(source.row(row) + (first + before),
                             rest < 0      ? 0
                             : rest < each ? rest
                                           : each,
                             source.memory, plain ? known_to_be_aligned : vector_bytes),
            static_cast<int>(threadIdx.x) & (lanes - 1), lanes};
  }
};

/// Whether rows are plain ones.
template <class In>
bool are_plain(const row_source<In>& source, double scale) {
  return scale == 1 && source.cols % vector_width<In> == 0 && source.starts_at(vector_bytes);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
