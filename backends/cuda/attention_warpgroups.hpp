// SPDX-License-Identifier: Apache-2.0
/// \file
/// attention of many rows on devices of compute capability 9.0: groups of four warps have 64 rows
/// each, whose products go on by themselves, and one more group reads tiles of keys and values
/// ahead. A group weighs the scores of a tile while the products of its values before and of the
/// other groups go on. (J. Shah et al., FlashAttention-3, 2024, has the shape of it.) Blocks stay,
/// and have one unit after the other: the next one's tiles are read while rows are written.
#pragma once

#include "attention_group_units.hpp"
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
  /// In steps of 8: no more together than the kernel begins with.
  static constexpr int copy_registers = 72;
  static constexpr int row_registers = 216;
  static constexpr int copy_threads = group_threads / 2;

  using query_tile = swizzled_tile<rows, dims>;
  using tile = swizzled_tile<keys, dims>;
  static constexpr int shared_bytes = query_tile::bytes + 2 * stages * tile::bytes + 1024;
};

template <class Shape>
struct group_memory {
  group_units units;
  key_range ranges[Shape::rows];
  transfer_barrier key_full[Shape::stages];
  transfer_barrier key_free[Shape::stages];
  transfer_barrier value_full[Shape::stages];
  transfer_barrier value_free[Shape::stages];
};

/// Where matrices are in shared memory.
template <class Shape>
struct group_operands {
  std::uint32_t queries;
  std::uint32_t keys;
  std::uint32_t values;

  __device__ static group_operands of(std::uint32_t memory) {
    const std::uint32_t queries = (memory + 1023) / 1024 * 1024;
    const std::uint32_t keys = queries + Shape::query_tile::bytes;
    return {queries, keys, keys + Shape::stages * Shape::tile::bytes};
  }
};

/// From the query of a key head's row to that of the `step`th after it. A division of each row's
/// number would take longer than what is done with it.
struct query_step {
  int group;
  int heads;
  std::int64_t offset;
  std::int64_t next_token;  ///< beside `offset`, where heads begin anew

  __device__ static query_step of(const core::attention_problem& p, int step) {
    const auto group = static_cast<int>(p.group);
    return {group, step % group, step / group * p.q.token_stride + step % group * p.q.head_stride,
            p.q.token_stride - group * p.q.head_stride};
  }
  /// `head`: of the group.
  __device__ void advance(int& head, std::int64_t& at) const {
    head += heads;
    at += offset;
    if (head >= group) {
      head -= group;
      at += next_token;
    }
  }
};

/// A group's queries of a unit, by its threads.
template <class In, class Shape>
class query_copy {
  using copy = tile_copy<typename Shape::query_tile, Shape::group_threads>;

 public:
  __device__ query_copy(const core::attention_problem& p, int group)
      : step_(query_step::of(p, copy::rows_a_turn)),
        own_(copy::of(p.q.dim, true, static_cast<int>(threadIdx.x) % Shape::group_threads)),
        group_row_(group * Shape::group_rows) {}

  __device__ void start(const core::attention_problem& p, const attention_block& block,
                        std::uint32_t to) const {
    const int first = group_row_ + own_.first_row;
    const auto at = head_and_token::of(p, block.key_head, block.first_row + first);
    auto head = static_cast<int>(at.head - block.key_head * p.group);
    std::int64_t from =
        core::offset_of(p.q, block.in.batch, at.head, block.in.first_query + at.token);
    const std::int64_t left = block.all_rows - block.first_row;
#pragma unroll 2
    for (int row = first; row < group_row_ + Shape::group_rows; row += copy::rows_a_turn) {
      const bool exists = row < left;
      own_.copy_row(to, row, static_cast<const In*>(p.q.data) + (exists ? from : 0), exists);
      step_.advance(head, from);
    }
    end_copies();
  }

 private:
  query_step step_;
  copy own_;
  int group_row_;
};

/// The warps that read ahead: two of them keys, two values. One finds what is next, too.
template <class In, class Shape>
__device__ inline void read_tiles(const core::attention_problem& p,
                                  const attention_parts<float>& parts, const attention_way& way,
                                  unsigned* claimed, const group_operands<Shape>& to,
                                  group_memory<Shape>& memory) {
  const int thread = static_cast<int>(threadIdx.x) % Shape::copy_threads;
  const int pair = static_cast<int>(threadIdx.x) % Shape::group_threads / Shape::copy_threads;
  const bool reads_keys = pair == 0;
  const bool finds = reads_keys && thread < 32;
  unit_finder<Shape> finder(p, parts, claimed);
  if (finds) {
    finder.find(p, parts, way, memory.units);
  }
  const auto& from = reads_keys ? p.k : p.v;
  using copy = tile_copy<typename Shape::tile, Shape::copy_threads>;
  const copy own = copy::of(from.dim, true, thread);
  transfer_barrier* const full = reads_keys ? memory.key_full : memory.value_full;
  transfer_barrier* const free = reads_keys ? memory.key_free : memory.value_free;
  const std::uint32_t place = reads_keys ? to.keys : to.values;
  ring_position at;
  ring_position turn;
#pragma unroll 1
  for (;; turn.advance(group_units::slots)) {
    const group_unit& unit = memory.units.wait(turn);
    if (!unit.exists) {
      return;
    }
    const key_range range = unit.keys;
    const In* data = unit.block.template token<In>(from, range.first);
#pragma unroll 1
    for (int first = range.first; first < range.end; first += Shape::keys) {
      free[at.slot].wait(at.phase ^ 1);
      own.template copy_rows<Shape::keys>(place + at.slot * Shape::tile::bytes, data,
                                          from.token_stride, range.end - first);
      end_copies();
      wait_for_copies_but<0>();
      show_to_products();
      full[at.slot].arrive();
      data += Shape::keys * from.token_stride;
      at.advance(Shape::stages);
    }
    memory.units.leave(turn);
    if (finds) {  // as late as can be, so that blocks end together
      finder.find(p, parts, way, memory.units);
    }
  }
}

template <class In, class Shape>
__global__ void __launch_bounds__(Shape::threads, 1)
    attention_by_groups(const __grid_constant__ core::attention_problem p,
                        const __grid_constant__ attention_parts<float> parts,
                        const attention_way way, unsigned* const claimed) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __shared__ uninitialised<group_memory<Shape>> memory_;
  group_memory<Shape>& memory = memory_.get();
  const auto operands = group_operands<Shape>::of(shared_address(dynamic_shared_memory()));
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  // One lane's, so that it is known to be the same for all: operands are made of it.
  const int group = shuffle(thread / Shape::group_threads, 0);
  if (thread == 0) {
    memory.units.initialise(Shape::threads / 32);
#pragma unroll
    for (int i = 0; i < Shape::stages; ++i) {
      memory.key_full[i].initialise(Shape::copy_threads);
      memory.value_full[i].initialise(Shape::copy_threads);
      memory.key_free[i].initialise(Shape::groups);
      memory.value_free[i].initialise(Shape::groups);
    }
  }
  __syncthreads();

  if (group == Shape::groups) {
    have_fewer_registers<Shape::copy_registers>();
    read_tiles<In, Shape>(p, parts, way, claimed, operands, memory);
    return;
  }

  have_more_registers<Shape::row_registers>();
  const int group_thread = thread % Shape::group_threads;
  const int group_row = group * Shape::group_rows;
  const int warp_row = group_row + group_thread / 32 * 16;
  const query_copy<In, Shape> queries(p, group);
  // Begins to read a unit's queries, and finds what keys they have.
  const auto begin = [&](const group_unit& unit) {
    synchronize_group(1 + group);  // all are done with those before
    queries.start(p, unit.block, operands.queries);
    if (group_thread < Shape::group_rows) {
      const int row = group_row + group_thread;
      memory.ranges[row] = way.unmasked
                               ? unit.keys
                               : key_range::of(unit.block.row<float>(p, unit.block.row_at(row)),
                                               unit.chunk.first, unit.chunk.end);
    }
  };

  const auto own_queries =
      Shape::query_tile::rows_at(operands.queries + static_cast<std::uint32_t>(group_row) * 128);
  const bool tells = group_thread == 0;
  constexpr int key_columns = Shape::keys / 8;
  warp_states<In, 1, Shape::dims / 8, true> rows;
  ring_position key_at;
  ring_position value_at;
  const auto release = [&](transfer_barrier* free, ring_position& at) {
    if (tells) {
      free[at.slot].arrive();
    }
    at.advance(Shape::stages);
  };
  const auto skip = [&](int tiles) {
#pragma unroll 1
    for (; tiles > 0; --tiles) {
      memory.key_full[key_at.slot].wait(key_at.phase);
      release(memory.key_free, key_at);
      memory.value_full[value_at.slot].wait(value_at.phase);
      release(memory.value_free, value_at);
    }
  };
  float s[1][key_columns][4];
  std::uint32_t weights[1][Shape::keys / 16][4];
  float factor[1][2];
  const auto multiply_keys = [&] {
    memory.key_full[key_at.slot].wait(key_at.phase);
    const auto tile = Shape::tile::rows_at(operands.keys + key_at.slot * Shape::tile::bytes);
    begin_products();
#pragma unroll
    for (int d = 0; d < Shape::dims / 16; ++d) {
      multiply_rows<In>(s[0], Shape::query_tile::by_rows(own_queries, d),
                        Shape::tile::by_rows(tile, d), d > 0);
    }
    end_products();
  };
  const auto add_values = [&] {
    memory.value_full[value_at.slot].wait(value_at.phase);
    const auto tile = Shape::tile::columns_at(operands.values + value_at.slot * Shape::tile::bytes);
    begin_products();
#pragma unroll
    for (int k = 0; k < Shape::keys / 16; ++k) {
      multiply_columns<In>(rows.o[0], weights[0][k], Shape::tile::by_columns(tile, k));
    }
    end_products();
  };

  ring_position turn;
  const group_unit* unit = &memory.units.wait(turn);
  if (unit->exists) {
    begin(*unit);
  }
#pragma unroll 1
  while (unit->exists) {
    wait_for_copies_but<0>();
    show_to_products();
    synchronize_group(1 + group);
    const int first = unit->keys.first;
    const int end = unit->keys.end;
    const int tiles = end > first ? (end - first + Shape::keys - 1) / Shape::keys : 0;
    const key_range* const ranges = memory.ranges + group_row;
    const auto own = keys_of_warp::of(ranges[lane], unit->chunk)
                         .with(keys_of_warp::of(ranges[32 + lane], unit->chunk));
    int from = tiles;
    int until = tiles;
    if (own.some.first < own.some.end) {
      from = (own.some.first - first) / Shape::keys;
      until = (own.some.end - first + Shape::keys - 1) / Shape::keys;
    }
    const auto weigh = [&](int tile) {
      const int key = first + tile * Shape::keys;
      if (key < own.all.first || key + Shape::keys > own.all.end) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          mask_scores(memory.ranges[warp_row + 8 * h + lane / 4], key, h, s[0]);
        }
      }
      rows.weigh(s, way.unit_2, factor);
      // Products go on meanwhile.
      finish_before_here(rows.sum[0][0].sum + rows.sum[0][1].sum, operands.queries);
    };
    rows.clear();
    skip(from);
    if (from < until) {
      multiply_keys();
      wait_for_products_but<0>();
      hold(s[0]);
      release(memory.key_free, key_at);
      weigh(from);
      pack_weights<In>(s, weights);
#pragma unroll 1
      for (int t = from + 1; t < until; ++t) {
        multiply_keys();
        add_values();
        wait_for_products_but<1>();
        hold(s[0]);
        release(memory.key_free, key_at);
        weigh(t);
        wait_for_products_but<0>();
        hold(rows.o[0]);
        release(memory.value_free, value_at);
        if (ballot(factor[0][0] != 1 || factor[0][1] != 1) != 0) {
#pragma unroll
          for (int c = 0; c < Shape::dims / 8; ++c) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              rows.o[0][c][i] *= factor[0][i / 2];
            }
          }
        }
        pack_weights<In>(s, weights);
      }
      add_values();
      wait_for_products_but<0>();
      hold(rows.o[0]);
      release(memory.value_free, value_at);
    }
    skip(tiles - until);
    // All tiles are done with: what comes next is found when those of keys have been read.
    const ring_position before = turn;
    turn.advance(group_units::slots);
    const group_unit* const next = &memory.units.wait(turn);
    if (next->exists) {
      begin(*next);  // its queries are read while rows are written
    }
    rows.write(p, parts, way, unit->block, way.unmasked ? unit->keys : unit->chunk, Shape::rows,
               warp_row);
    memory.units.leave(before);
    unit = next;
  }
#endif
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
