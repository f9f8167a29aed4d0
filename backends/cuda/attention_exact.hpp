// SPDX-License-Identifier: Apache-2.0
/// \file
/// attention of many rows of f32 and f64 by the matrix unit. A warp has 16 rows, whose weighted
/// sums stay in its registers while the block goes through the keys in tiles; scores and weights
/// are as exact as the arithmetic. Rows that have scores, or weights of values, that are not finite
/// are made again by one key after the other.
#pragma once

#include "attention_products.hpp"

#include <gpu/attention/weights.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// `Unit` multiplies its type In: rows and threads of a block, keys of a tile, how many of these
/// are added up in In, as the roundings of more would show, and its shared memory.
template <class Unit>
struct exact_memory {
  typename Unit::memory operands;
  key_range ranges[Unit::rows];
  /// Of two tiles in turn: keys whose values are not all finite, which have zeros in their places.
  std::uint32_t left_out[2];
};

template <class Unit>
struct exact_shape {
  static constexpr int threads = Unit::threads;
  static constexpr int rows = Unit::rows;
  static constexpr int shared_bytes = static_cast<int>(sizeof(exact_memory<Unit>));
};

template <class Unit>
__global__ void __launch_bounds__(Unit::threads, 256 / Unit::threads)
    attention_exact(const __grid_constant__ core::attention_problem p,
                    const __grid_constant__ attention_parts<arithmetic_t<typename Unit::In>> parts,
                    const attention_way way) {
  using In = typename Unit::In;
  using A = arithmetic_t<In>;
  constexpr int keys = Unit::keys;
  static_assert(keys <= 32);  // bits of left_out
  constexpr int columns = Unit::dims / 8;
  auto& memory = *reinterpret_cast<exact_memory<Unit>*>(dynamic_shared_memory());
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp_row = thread / 32 * 16;

  const attention_block begun = attention_block::of(p, parts, Unit::rows);
  if (begun.first_row >= begun.all_rows) {
    return;  // a packed sequence leaves a block
  }
  const key_range chunk = key_range::of(begun, parts);
#pragma unroll 1
  for (int r = thread; r < Unit::rows; r += Unit::threads) {
    memory.ranges[r] = key_range::of(begun.row<A>(p, begun.row_at(r)), chunk.first, chunk.end);
  }
  if (thread < 2) {
    memory.left_out[thread] = 0;
  }
  Unit::place_queries(p, begun, warp_row, memory.operands);
  __syncthreads();
  const auto [first, end] =
      keys_of_some<Unit::rows, keys>(chunk, [&](int row) { return memory.ranges[row]; });
  const auto own_keys = keys_of_warp::of(memory.ranges[warp_row + lane % 16], chunk);

  const In* k = begun.token<In>(p.k, first);
  const In* v = begun.token<In>(p.v, first);
  auto key_copy = Unit::copy::of_keys(p, memory.operands);
  auto value_copy = Unit::copy::of_values(p, memory.operands);
  const auto scale = static_cast<A>(p.scale);

  warp_states<In, 1, columns> rows;
  rows.clear();
  unsigned careful = 0;  // bits of the lane's two rows
  // Sums of more keys: in memory, as registers are scarce and these are seldom read.
  volatile double total[columns][4];
  A summed_max[2] = {-infinity<A>, -infinity<A>};
#pragma unroll
  for (int c = 0; c < columns; ++c) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      total[c][i] = 0;
    }
  }
  key_copy.begin(k, end - first);
  key_copy.template end<false>();
#pragma unroll 1
  for (int begin = first; begin < end; begin += keys) {
    __syncthreads();  // the keys are there, and the values before are done with
    value_copy.begin(v, end - begin);
    v += keys * p.v.token_stride;
    const bool works = own_keys.some_in(begin, keys);
    A s[1][keys / 8][4];
    if (works) {
      Unit::multiply_keys(memory.operands, warp_row, s[0]);
    }
    const std::uint32_t own_left_out = value_copy.template end<true>();
    if (own_left_out != 0) {
      atomicOr(&memory.left_out[begin / keys % 2], own_left_out);
    }
    typename Unit::weights weights;
    A factor[1][2];
    if (works) {
      if (way.edited) {
        edit_scores(p, parts, Unit::rows, warp_row, begin, s[0]);
      } else {
#pragma unroll
        for (int i = 0; i < keys / 8 * 4; ++i) {
          s[0][i / 4][i % 4] *= scale;
        }
      }
      if (!own_keys.all_in(begin, keys)) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          mask_scores(memory.ranges[warp_row + 8 * h + lane / 4], begin, h, s[0]);
        }
      }
      careful |= rows.weigh_exactly(s, factor);
      weights.take(s[0]);
    }
    __syncthreads();  // the values are there, and the keys done with
    if (begin + keys < end) {
      k += keys * p.k.token_stride;
      key_copy.begin(k, end - begin - keys);
    }
    if (works) {
      if (const std::uint32_t left_out = memory.left_out[begin / keys % 2]; left_out != 0) {
#pragma unroll
        for (int i = 0; i < keys / 2; ++i) {  // the lane's weights
          const int key = i / 4 * 8 + lane % 4 * 2 + i % 2;
          const int h = i / 2 % 2;
          careful |= (left_out >> key & 1U) != 0 && weights.is_some(i / 4, h, i % 2) ? 1U << h : 0U;
        }
      }
#pragma unroll
      for (int c = 0; c < columns; c += 2) {
        A own[2][4];
        weights.multiply_values(memory.operands, 8 * c, own);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          A& sum = rows.o[0][c + i / 4][i % 4];
          sum = fma(sum, factor[0][i % 4 / 2], own[i / 4][i % 4]);
        }
      }
    }
    if ((begin + keys) % Unit::sum_keys == 0 || begin + keys >= end) {
      // What was added up before has the maximum of then.
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const auto since = static_cast<double>(rebasing_factor(summed_max[h], rows.max[0][h]));
        summed_max[h] = rows.max[0][h];
#pragma unroll
        for (int i = 0; i < 2 * columns; ++i) {
          A& sum = rows.o[0][i / 2][2 * h + i % 2];
          volatile double& all = total[i / 2][2 * h + i % 2];
          all = all * since + static_cast<double>(sum);
          sum = 0;
        }
      }
    }
    if (thread == 0) {
      memory.left_out[(begin / keys + 1) % 2] = 0;
    }
    if (begin + keys < end) {
      key_copy.template end<false>();
    }
  }
#pragma unroll
  for (int i = 0; i < 4 * columns; ++i) {
    rows.o[0][i / 4][i % 4] = static_cast<A>(total[i / 4][i % 4]);
  }
  rows.write(p, parts, way, attention_block::of(p, parts, Unit::rows), chunk, Unit::rows, warp_row,
             careful);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
