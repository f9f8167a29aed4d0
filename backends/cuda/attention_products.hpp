// SPDX-License-Identifier: Apache-2.0
/// \file
/// Products of a warp's queries with keys, of its weights with values, and what edits make of the
/// former: for kernels whose warps multiply by themselves.
#pragma once

#include "attention_warp.hpp"
#include "matrix_unit.hpp"

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

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
    warp_states<In, Shape::groups, Shape::dims / 8>& rows, std::uint32_t values,
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

/// Products of a row to the scores they become; `products` of keys first_key, the next `near`, and
/// so on 8 further. Not in line: what its caller has in registers is more important.
template <class A>
__device__ __noinline__ void edit_scores(const core::attention_problem& p,
                                         const attention_parts<A>& parts, int rows_of_block,
                                         int block_number, int row_of_block, int first_key,
                                         int near, A* products, int count) {
  const attention_block block = attention_block::of(p, parts, rows_of_block, block_number);
  const std::int64_t number = block.first_row + row_of_block;
  const std::int64_t last = block.all_rows - 1;
  const core::attention_row<A> row = block.row<A>(p, number < last ? number : last);
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    products[i] = row.score(products[i], first_key + i / near * 8 + i % near);
  }
}

/// Products to the scores they become: out of registers, which have no index, and back.
template <int columns, class A>
__device__ inline void edit_scores(const core::attention_problem& p,
                                   const attention_parts<A>& parts, int rows_of_block, int row,
                                   int first_key, A (&s)[columns][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    A products[2 * columns];
#pragma unroll
    for (int i = 0; i < 2 * columns; ++i) {
      products[i] = s[i / 2][2 * h + i % 2];
    }
    edit_scores(p, parts, rows_of_block, static_cast<int>(blockIdx.x), row + lane / 4 + 8 * h,
                first_key + lane % 4 * 2, 2, products, 2 * columns);
#pragma unroll
    for (int i = 0; i < 2 * columns; ++i) {
      s[i / 2][2 * h + i % 2] = products[i];
    }
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
