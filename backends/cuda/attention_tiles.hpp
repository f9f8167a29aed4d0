// SPDX-License-Identifier: Apache-2.0
/// \file
/// attention of many rows by the matrix unit: a block has rows, queries of the heads that share
/// keys, whose weighted sums stay in its warps' registers while it goes through the keys in tiles.
/// A tile's weights go from the registers they are computed in to the product with the values. (T.
/// Dao, FlashAttention-2, 2023, has the shape of it.)
#pragma once

#include "attention_products.hpp"

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Dimensions, rounded up; warps of a block, and how many times 16 rows each has; blocks that a
/// multiprocessor's registers have room for.
template <int dims_, int warps_, int groups_, int resident_>
struct tile_shape {
  static constexpr int dims = dims_;
  static constexpr int warps = warps_;
  static constexpr int groups = groups_;
  static constexpr int resident = resident_;
  static constexpr int threads = 32 * warps;
  static constexpr int rows_each = 16 * groups;
  static constexpr int rows = rows_each * warps;
  static constexpr int keys = 64;
  using tile = matrix_tile<dims>;

  static constexpr int q_bytes = tile::bytes(rows);
  static constexpr int k_bytes = tile::bytes(keys);
  static constexpr int range_bytes = rows * static_cast<int>(sizeof(key_range));
  static constexpr int shared_bytes = q_bytes + 2 * k_bytes + range_bytes;
};

template <class In, class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::resident)
    attention_tiles(const __grid_constant__ core::attention_problem p,
                    const __grid_constant__ attention_parts<float> parts, const attention_way way) {
  constexpr int groups = Shape::groups;
  unsigned char* const shared = dynamic_shared_memory();
  const auto queries = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const std::uint32_t keys = queries + Shape::q_bytes;
  const std::uint32_t values = keys + Shape::k_bytes;
  auto* const ranges = reinterpret_cast<key_range*>(shared + Shape::q_bytes + 2 * Shape::k_bytes);
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp = thread / 32;

  const attention_block begun = attention_block::of(p, parts, Shape::rows);
  if (begun.first_row >= begun.all_rows) {
    return;  // a packed sequence leaves a block
  }
  using copy = tile_copy<typename Shape::tile, Shape::threads>;
  const copy key_copy = copy::of(p.k.dim, way.in_pieces, thread);
  const key_range chunk = key_range::of(begun, parts);
#pragma unroll 1
  for (int r = key_copy.first_row; r < Shape::rows; r += copy::rows_a_turn) {
    key_copy.copy_row(queries, r, begun.query<In>(p, begun.row_at(r)), true);
  }
#pragma unroll 1
  for (int r = thread; r < Shape::rows; r += Shape::threads) {
    ranges[r] = key_range::of(begun.row<float>(p, begun.row_at(r)), chunk.first, chunk.end);
  }
  __syncthreads();
  const auto [first, end] =
      keys_of_some<Shape::rows, Shape::keys>(chunk, [&](int row) { return ranges[row]; });
  const int warp_row = warp * Shape::rows_each;
  const auto own_keys = keys_of_warp::of(ranges[warp_row + lane % Shape::rows_each], chunk);

  const In* k = begun.token<In>(p.k, first);
  const In* v = begun.token<In>(p.v, first);
  const copy value_copy = copy::of(p.v.dim, way.in_pieces, thread);

  warp_states<In, groups, Shape::dims / 8> rows;
  rows.clear();
  key_copy.template copy_rows<Shape::keys>(keys, k, p.k.token_stride, end - first);
  end_copies();
  const std::uint32_t own_queries = queries + Shape::tile::bytes(warp_row);
#pragma unroll 1
  for (int begin = first; begin < end; begin += Shape::keys) {
    wait_for_copies_but<0>();
    __syncthreads();  // the keys are there, and the values before are done with
    value_copy.template copy_rows<Shape::keys>(values, v, p.v.token_stride, end - begin);
    v += Shape::keys * p.v.token_stride;
    end_copies();
    const bool works = own_keys.some_in(begin, Shape::keys);
    float s[groups][Shape::keys / 8][4];
    if (works) {
      multiply_keys<In, Shape>(own_queries, keys, s);
    }
    std::uint32_t weights[groups][Shape::keys / 16][4];
    float factor[groups][2];
    if (works) {
      if (way.edited) {
#pragma unroll
        for (int g = 0; g < groups; ++g) {
          edit_scores(p, parts, Shape::rows, warp_row + 16 * g, begin, s[g]);
        }
      }
      if (!own_keys.all_in(begin, Shape::keys)) {
#pragma unroll
        for (int g = 0; g < groups; ++g) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            mask_scores(ranges[warp_row + 16 * g + 8 * h + lane / 4], begin, h, s[g]);
          }
        }
      }
      rows.weigh(s, way.unit_2, factor);
      pack_weights<In>(s, weights);
    }
    wait_for_copies_but<0>();
    __syncthreads();  // the values are there, and the keys done with
    if (begin + Shape::keys < end) {
      k += Shape::keys * p.k.token_stride;
      key_copy.template copy_rows<Shape::keys>(keys, k, p.k.token_stride,
                                               end - begin - Shape::keys);
    }
    end_copies();
    if (works) {
      add_values<In, Shape>(rows, values, weights, factor);
    }
  }

  rows.write(p, parts, way, attention_block::of(p, parts, Shape::rows), chunk, Shape::rows,
             warp_row);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
