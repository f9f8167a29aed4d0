// SPDX-License-Identifier: Apache-2.0
/// \file
/// attention of many rows by the matrix unit: a block has rows, queries of the heads that share
/// keys, whose weighted sums stay in its warps' registers while it goes through the keys in tiles.
/// A tile's weights go from the registers they are computed in to the product with the values. (T.
/// Dao, FlashAttention-2, 2023, has the shape of it.)
#pragma once

#include "attention_warp.hpp"

#include <cstdint>
#include <type_traits>

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

/// Products of the warp's queries with a tile's keys. Where few of them go on at a time each is the
/// sum of two.
template <class In, class Shape>
__device__ inline void multiply_keys(std::uint32_t queries, std::uint32_t keys,
                                     float (&s)[Shape::groups][Shape::keys / 8][4]) {
  constexpr int groups = Shape::groups;
  constexpr int columns = Shape::keys / 8;
  constexpr int chains = groups * columns <= 2 ? 2 : 1;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float own[chains][groups][columns][4];
#pragma unroll
  for (int i = 0; i < chains * groups * columns * 4; ++i) {
    own[i / (groups * columns * 4)][i / (columns * 4) % groups][i / 4 % columns][i % 4] = 0;
  }
#pragma unroll
  for (int d = 0; d < Shape::dims / 16; ++d) {
    std::uint32_t q[groups][4];
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      load_matrices(q[g], queries + Shape::tile::at(16 * g + lane % 16, 2 * d + lane / 16));
    }
#pragma unroll
    for (int c = 0; c < columns / 2; ++c) {
      std::uint32_t k[4];
      load_matrices(
          k, keys + Shape::tile::at(16 * c + lane % 8 + lane / 16 * 8, 2 * d + lane / 8 % 2));
#pragma unroll
      for (int g = 0; g < groups; ++g) {
        multiply_add<In>(own[d % chains][g][2 * c], q[g], k[0], k[1]);
        multiply_add<In>(own[d % chains][g][2 * c + 1], q[g], k[2], k[3]);
      }
    }
  }
#pragma unroll
  for (int g = 0; g < groups; ++g) {
#pragma unroll
    for (int c = 0; c < columns; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s[g][c][i] = chains == 1 ? own[0][g][c][i] : own[0][g][c][i] + own[chains - 1][g][c][i];
      }
    }
  }
}

/// The weighted values of a tile. They are added up by themselves first: the matrix unit does not
/// round, it cuts off, which would show after many tiles.
template <class In, class Shape>
__device__ inline void add_values(
    warp_rows<In, Shape::groups, Shape::dims / 8>& rows, std::uint32_t values,
    const std::uint32_t (&weights)[Shape::groups][Shape::keys / 16][4],
    const float (&factor)[Shape::groups][2]) {
  constexpr int groups = Shape::groups;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int c = 0; c < Shape::dims / 8; c += 2) {
    float own[groups][2][4];
#pragma unroll
    for (int g = 0; g < groups; ++g) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          own[g][j][i] = 0;
        }
      }
    }
#pragma unroll
    for (int k = 0; k < Shape::keys / 16; ++k) {
      std::uint32_t v[4];
      load_transposed(v, values + Shape::tile::at(16 * k + lane % 16, c + lane / 16));
#pragma unroll
      for (int g = 0; g < groups; ++g) {
        multiply_add<In>(own[g][0], weights[g][k], v[0], v[1]);
        multiply_add<In>(own[g][1], weights[g][k], v[2], v[3]);
      }
    }
#pragma unroll
    for (int g = 0; g < groups; ++g) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          rows.o[g][c + j][i] = fmaf(rows.o[g][c + j][i], factor[g][i / 2], own[g][j][i]);
        }
      }
    }
  }
}

/// Products to the scores they become: out of registers, which have no index, and back.
template <int columns>
__device__ inline void edit_scores(const core::attention_problem& p,
                                   const attention_parts<float>& parts, int rows_of_block, int row,
                                   int first_key, float (&s)[columns][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float products[2 * columns];
#pragma unroll
    for (int i = 0; i < 2 * columns; ++i) {
      products[i] = s[i / 2][2 * h + i % 2];
    }
    edit_scores(p, parts, rows_of_block, row + lane / 4 + 8 * h, first_key + lane % 4 * 2, products,
                2 * columns);
#pragma unroll
    for (int i = 0; i < 2 * columns; ++i) {
      s[i / 2][2 * h + i % 2] = products[i];
    }
  }
}

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

  const auto begun = attention_block::of(p, parts, Shape::rows);
  if (begun.first_row >= begun.all_rows) {
    return;  // a packed sequence leaves a block
  }
  using copy = tile_copy<typename Shape::tile, Shape::threads>;
  const copy key_copy = copy::of(p.k.dim, way.in_pieces, thread);
  const std::int64_t past_row = begun.all_rows - 1;
  const auto row_at = [&](int r) {
    return begun.first_row + r < past_row ? begun.first_row + r : past_row;
  };
  const int begin_all = static_cast<int>(begun.chunk * parts.chunk_keys);
  const int past_all = begun.in.keys - begin_all < parts.chunk_keys
                           ? static_cast<int>(begun.in.keys > begin_all ? begun.in.keys : begin_all)
                           : begin_all + static_cast<int>(parts.chunk_keys);
  {
    const In* const q = static_cast<const In*>(p.q.data);
#pragma unroll 1
    for (int r = key_copy.first_row; r < Shape::rows; r += copy::rows_a_turn) {
      const auto at = head_and_token::of(p, begun.key_head, row_at(r));
      key_copy.copy_row(
          queries, r,
          q + core::offset_of(p.q, begun.in.batch, at.head, begun.in.first_query + at.token), true);
    }
  }
#pragma unroll 1
  for (int r = thread; r < Shape::rows; r += Shape::threads) {
    ranges[r] = begun.keys(begun.row(p, row_at(r)), begin_all, past_all);
  }
  __syncthreads();
  // Keys that some row of the block has, and of the warp's rows that some have and that all have.
  int first = past_all;
  int end = begin_all;
#pragma unroll 1
  for (int r = lane; r < Shape::rows; r += 32) {
    const key_range own = ranges[r];
    if (own.first < own.end) {
      first = own.first < first ? own.first : first;
      end = own.end > end ? own.end : end;
    }
  }
  first = __reduce_min_sync(0xffffffffU, first) / Shape::keys * Shape::keys;
  end = __reduce_max_sync(0xffffffffU, end);
  const int warp_row = warp * Shape::rows_each;
  const key_range own_row = ranges[warp_row + lane % Shape::rows_each];
  const bool own_live = own_row.first < own_row.end;
  const int some_first = __reduce_min_sync(0xffffffffU, own_live ? own_row.first : past_all);
  const int some_end = __reduce_max_sync(0xffffffffU, own_live ? own_row.end : begin_all);
  const int all_first = __reduce_max_sync(0xffffffffU, own_row.first);
  const int all_end = __reduce_min_sync(0xffffffffU, own_row.end);
  first = first < begin_all ? begin_all : first;

  const In* k = static_cast<const In*>(p.k.data) +
                core::offset_of(p.k, begun.in.batch, begun.key_head, begun.in.first_key + first);
  const In* v = static_cast<const In*>(p.v.data) +
                core::offset_of(p.v, begun.in.batch, begun.key_head, begun.in.first_key + first);
  const copy value_copy = copy::of(p.v.dim, way.in_pieces, thread);

  warp_rows<In, groups, Shape::dims / 8> rows;
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
    const bool works = begin < some_end && begin + Shape::keys > some_first;
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
      if (begin < all_first || begin + Shape::keys > all_end) {
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

  rows.write(p, parts, way, Shape::rows, warp_row, ranges);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
