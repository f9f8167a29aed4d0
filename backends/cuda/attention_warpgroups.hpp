// SPDX-License-Identifier: Apache-2.0
/// \file
/// attention of many rows on devices of compute capability 9.0: groups of four warps have 64 rows
/// each, whose products go on by themselves, and one more group reads tiles of keys and values
/// ahead. A group weighs the scores of a tile while the products of its values before and of the
/// other groups go on. (J. Shah et al., FlashAttention-3, 2024, has the shape of it.)
#pragma once

#include "attention_warp.hpp"
#include "matrix_unit.hpp"
#include "warpgroup.hpp"

#include <gpu/uninitialised.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Dimensions, rounded up; keys of a tile; tiles that there is room for.
template <int dims_, int keys_, int stages_>
struct group_shape {
  static constexpr int dims = dims_;
  static constexpr int keys = keys_;
  static constexpr int stages = stages_;
  static constexpr int groups = 2;  ///< that have rows
  static constexpr int group_threads = 128;
  static constexpr int threads = (groups + 1) * group_threads;
  static constexpr int group_rows = 64;
  static constexpr int rows = groups * group_rows;
  /// Of the 65,536 that a multiprocessor has, in steps of 8.
  static constexpr int copy_registers = 40;
  static constexpr int row_registers = 232;
  static constexpr int copy_threads = group_threads / 2;

  using query_tile = swizzled_tile<rows, dims>;
  using tile = swizzled_tile<keys, dims>;
  static constexpr int shared_bytes = query_tile::bytes + 2 * stages * tile::bytes + 1024;
};

template <class Shape>
struct group_memory {
  key_range ranges[Shape::rows];
  transfer_barrier key_full[Shape::stages];
  transfer_barrier key_free[Shape::stages];
  transfer_barrier value_full[Shape::stages];
  transfer_barrier value_free[Shape::stages];
};

/// Slots for tiles in a ring, and its ways round.
template <int stages>
struct ring_turn {
  int stage = 0;
  int phase = 0;

  __device__ void next() {
    if (++stage == stages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

template <class In, class Shape>
__global__ void __launch_bounds__(Shape::threads, 1)
    attention_by_groups(const __grid_constant__ core::attention_problem p,
                        const __grid_constant__ attention_parts<float> parts,
                        const attention_way way) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __shared__ uninitialised<group_memory<Shape>> memory_;
  group_memory<Shape>& memory = memory_.get();
  unsigned char* const shared = dynamic_shared_memory();
  const std::uint32_t queries = (shared_address(shared) + 1023) / 1024 * 1024;
  const std::uint32_t keys = queries + Shape::query_tile::bytes;
  const std::uint32_t values = keys + Shape::stages * Shape::tile::bytes;
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int group = thread / Shape::group_threads;

  const attention_block begun = attention_block::of(p, parts, Shape::rows);
  if (begun.first_row >= begun.all_rows) {
    return;  // a packed sequence leaves a block
  }
  const key_range chunk = key_range::of(begun, parts);
#pragma unroll 1
  for (int r = thread; r < Shape::rows; r += Shape::threads) {
    memory.ranges[r] = key_range::of(begun.row<float>(p, begun.row_at(r)), chunk.first, chunk.end);
  }
  if (thread == 0) {
#pragma unroll
    for (int i = 0; i < Shape::stages; ++i) {
      memory.key_full[i].initialise(Shape::copy_threads);
      memory.value_full[i].initialise(Shape::copy_threads);
      memory.key_free[i].initialise(Shape::groups);
      memory.value_free[i].initialise(Shape::groups);
    }
  }
  __syncthreads();
  // Keys that some row of the block has.
  const auto [first, end] = keys_of_some<Shape::rows, Shape::keys>(memory.ranges, chunk);
  const int tiles = end > first ? (end - first + Shape::keys - 1) / Shape::keys : 0;

  if (group == Shape::groups) {
    have_fewer_registers<Shape::copy_registers>();
    // Two warps read keys, two values: each of them waits for its own.
    const bool reads_keys = thread % Shape::group_threads < Shape::copy_threads;
    const auto& from = reads_keys ? p.k : p.v;
    using copy = tile_copy<typename Shape::tile, Shape::copy_threads>;
    const copy own = copy::of(from.dim, true, thread % Shape::copy_threads);
    const In* data = begun.token<In>(from, first);
    transfer_barrier* const full = reads_keys ? memory.key_full : memory.value_full;
    transfer_barrier* const free = reads_keys ? memory.key_free : memory.value_free;
    const std::uint32_t place = reads_keys ? keys : values;
    ring_turn<Shape::stages> turn;
#pragma unroll 1
    for (int t = 0; t < tiles; ++t, turn.next()) {
      free[turn.stage].wait(turn.phase ^ 1);
      own.template copy_rows<Shape::keys>(place + turn.stage * Shape::tile::bytes, data,
                                          from.token_stride, end - first - t * Shape::keys);
      end_copies();
      data += Shape::keys * from.token_stride;
      wait_for_copies_but<0>();
      show_to_products();
      full[turn.stage].arrive();
    }
    return;
  }

  have_more_registers<Shape::row_registers>();
  const int group_row = group * Shape::group_rows;
  {
    using copy = tile_copy<typename Shape::query_tile, Shape::group_threads>;
    const copy query_copy = copy::of(p.q.dim, true, thread % Shape::group_threads);
#pragma unroll 1
    for (int r = query_copy.first_row; r < Shape::group_rows; r += copy::rows_a_turn) {
      query_copy.copy_row(queries, group_row + r, begun.query<In>(p, begun.row_at(group_row + r)),
                          true);
    }
    end_copies();
    wait_for_copies_but<0>();
    show_to_products();
    synchronize_group(1 + group);
  }
  // Keys that some and that all of the group's rows have.
  int some_first = chunk.end;
  int some_end = chunk.first;
  int all_first = chunk.first;
  int all_end = chunk.end;
#pragma unroll
  for (int r = 0; r < Shape::group_rows; r += 32) {
    const key_range own = memory.ranges[group_row + r + lane];
    if (own.first < own.end) {
      some_first = own.first < some_first ? own.first : some_first;
      some_end = own.end > some_end ? own.end : some_end;
    }
    all_first = own.first > all_first ? own.first : all_first;
    all_end = own.end < all_end ? own.end : all_end;
  }
  some_first = __reduce_min_sync(0xffffffffU, some_first);
  some_end = __reduce_max_sync(0xffffffffU, some_end);
  all_first = __reduce_max_sync(0xffffffffU, all_first);
  all_end = __reduce_min_sync(0xffffffffU, all_end);
  int from = tiles;
  int until = tiles;
  if (some_first < some_end) {
    from = (some_first - first) / Shape::keys;
    until = (some_end - first + Shape::keys - 1) / Shape::keys;
  }

  const int warp_row = group_row + thread % Shape::group_threads / 32 * 16;
  const std::uint32_t own_queries = queries + static_cast<std::uint32_t>(group_row) * 128;
  const bool tells = thread % Shape::group_threads == 0;
  constexpr int key_columns = Shape::keys / 8;
  warp_rows<In, 1, Shape::dims / 8> rows;
  rows.clear();
  ring_turn<Shape::stages> key_turn;
  ring_turn<Shape::stages> value_turn;
  const auto leave = [&](transfer_barrier* free, ring_turn<Shape::stages>& turn) {
    if (tells) {
      free[turn.stage].arrive();
    }
    turn.next();
  };
  const auto skip = [&] {
    memory.key_full[key_turn.stage].wait(key_turn.phase);
    leave(memory.key_free, key_turn);
    memory.value_full[value_turn.stage].wait(value_turn.phase);
    leave(memory.value_free, value_turn);
  };
  float s[1][key_columns][4];
  std::uint32_t weights[1][Shape::keys / 16][4];
  float factor[1][2];
  const auto multiply_keys = [&] {
    memory.key_full[key_turn.stage].wait(key_turn.phase);
    const std::uint32_t tile = keys + key_turn.stage * Shape::tile::bytes;
    begin_products();
#pragma unroll
    for (int d = 0; d < Shape::dims / 16; ++d) {
      multiply_rows<In>(s[0], Shape::query_tile::by_rows(own_queries, d),
                        Shape::tile::by_rows(tile, d), d > 0);
    }
    end_products();
  };
  const auto add_values = [&] {
    memory.value_full[value_turn.stage].wait(value_turn.phase);
    const std::uint32_t tile = values + value_turn.stage * Shape::tile::bytes;
    begin_products();
#pragma unroll
    for (int k = 0; k < Shape::keys / 16; ++k) {
      multiply_columns<In>(rows.o[0], weights[0][k], Shape::tile::by_columns(tile, k));
    }
    end_products();
  };
  const auto weigh = [&](int tile) {
    const int begin = first + tile * Shape::keys;
    if (begin < all_first || begin + Shape::keys > all_end) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        mask_scores(memory.ranges[warp_row + 8 * h + lane / 4], begin, h, s[0]);
      }
    }
    rows.weigh(s, way.unit_2, factor);
    // Products go on meanwhile.
    finish_before_here(rows.sum[0][0].sum + rows.sum[0][1].sum, queries);
  };
#pragma unroll 1
  for (int t = 0; t < from; ++t) {
    skip();
  }
  if (from < until) {
    multiply_keys();
    wait_for_products_but<0>();
    hold(s[0]);
    leave(memory.key_free, key_turn);
    weigh(from);
    pack_weights<In>(s, weights);
#pragma unroll 1
    for (int t = from + 1; t < until; ++t) {
      multiply_keys();
      add_values();
      wait_for_products_but<1>();
      hold(s[0]);
      leave(memory.key_free, key_turn);
      weigh(t);
      wait_for_products_but<0>();
      hold(rows.o[0]);
      leave(memory.value_free, value_turn);
#pragma unroll
      for (int c = 0; c < Shape::dims / 8; ++c) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          rows.o[0][c][i] *= factor[0][i / 2];
        }
      }
      pack_weights<In>(s, weights);
    }
    add_values();
    wait_for_products_but<0>();
    hold(rows.o[0]);
    leave(memory.value_free, value_turn);
  }
#pragma unroll 1
  for (int t = until; t < tiles; ++t) {
    skip();
  }
  rows.write(p, parts, way, Shape::rows, warp_row, memory.ranges);
#endif
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
