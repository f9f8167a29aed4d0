// SPDX-License-Identifier: Apache-2.0
/// \file
/// attention of at most 16 rows for a key head by the matrix unit: what decides is how fast keys
/// and values are read. A block has a chunk of the keys, each of its warps a part of that, which it
/// reads in steps of 16 keys some steps ahead, without a word to the other warps before the end.
#pragma once

#include "attention_tiles.hpp"
#include "hopper.hpp"

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Dimensions, rounded up; warps of a block; steps that a warp's copies are ahead; blocks on a
/// multiprocessor.
template <int dims_, int warps_, int steps_, int resident_, int block_keys_ = 512>
struct few_shape {
  static constexpr int dims = dims_;
  static constexpr int warps = warps_;
  static constexpr int steps = steps_;
  static constexpr int resident = resident_;
  static constexpr int threads = 32 * warps;
  static constexpr int groups = 1;
  static constexpr int rows = 16;
  static constexpr int keys = 16;
  static constexpr int block_keys = block_keys_;
  static constexpr int warp_keys = block_keys / warps;
  static constexpr int most_blocks = 32 / warps < 8 ? 32 / warps : 8;  ///< of a chunk
  using tile = matrix_tile<dims>;

  static constexpr int tile_bytes = tile::bytes(keys);
  static constexpr int ring_bytes = 2 * steps * tile_bytes;  ///< of a warp
  static constexpr int shared_bytes = warps * ring_bytes;
};

/// What warps tell each other at the end; their weighted sums stand where their rings were.
template <class Shape>
struct few_memory {
  static constexpr int row_floats = Shape::dims + 4;  // rows begin at different banks
  static_assert(Shape::rows * row_floats * static_cast<int>(sizeof(float)) <= Shape::ring_bytes);

  key_range ranges[Shape::rows];
  float max[Shape::warps][Shape::rows];
  double sum[Shape::warps][Shape::rows];
  unsigned careful;  ///< rows that attend_by_key is for
};

template <class In, class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::resident)
    attention_few(const __grid_constant__ core::attention_problem p,
                  const __grid_constant__ attention_parts<float> parts, const attention_way way) {
  __shared__ few_memory<Shape> memory;
  __shared__ block16 query_memory[Shape::tile::bytes(Shape::rows) / 16];
  unsigned char* const shared = dynamic_shared_memory();
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  let_next_begin();

  const auto block = attention_block::of(p, parts, Shape::rows);
  if (block.first_row >= block.all_rows) {
    return;  // a packed sequence leaves a block
  }
  const core::attention_sequence& in = block.in;
  const auto rows_here = static_cast<int>(block.all_rows);
  const int chunk_begin = static_cast<int>(block.chunk * parts.chunk_keys);
  const int chunk_past = in.keys - chunk_begin < parts.chunk_keys
                             ? static_cast<int>(in.keys > chunk_begin ? in.keys : chunk_begin)
                             : chunk_begin + static_cast<int>(parts.chunk_keys);
  const int block_begin = chunk_begin + block.rank * Shape::block_keys;
  if (thread == 0) {
    memory.careful = 0;
  }
  if (thread < Shape::rows) {
    const int last = rows_here - 1;
    memory.ranges[thread] =
        block.keys(block.row(p, thread < last ? thread : last), chunk_begin, chunk_past);
  }
  const auto queries = static_cast<std::uint32_t>(__cvta_generic_to_shared(query_memory));
  const auto group = static_cast<int>(p.group());
  {
    using copy = tile_copy<typename Shape::tile, Shape::threads>;
    const copy query_copy = copy::of(p.q.dim, way.in_pieces, thread);
    const In* const q = static_cast<const In*>(p.q.data) +
                        core::offset_of(p.q, in.batch, block.key_head * group, in.first_query);
#pragma unroll 1
    for (int r = query_copy.first_row; r < Shape::rows; r += copy::rows_a_turn) {
      const bool exists = r < rows_here;
      query_copy.copy_row(
          queries, r, exists ? q + r % group * p.q.head_stride + r / group * p.q.token_stride : q,
          exists);
    }
    end_copies();
  }
  __syncthreads();

  // Keys of the warp that some rows have, and that all have.
  const key_range own_row = memory.ranges[lane % Shape::rows];
  const bool own_live = own_row.first < own_row.end;
  const int warp_begin = block_begin + warp * Shape::warp_keys;
  const int warp_past = warp_begin + Shape::warp_keys;
  int first = __reduce_min_sync(0xffffffffU, own_live ? own_row.first : warp_past);
  int end = __reduce_max_sync(0xffffffffU, own_live ? own_row.end : warp_begin);
  const int all_first = __reduce_max_sync(0xffffffffU, own_row.first);
  const int all_end = __reduce_min_sync(0xffffffffU, own_row.end);
  first = first < warp_begin ? warp_begin : first / Shape::keys * Shape::keys;
  end = end > warp_past ? warp_past : end;

  using copy = tile_copy<typename Shape::tile, 32>;
  const copy key_copy = copy::of(p.k.dim, way.in_pieces, lane);
  const copy value_copy = copy::of(p.v.dim, way.in_pieces, lane);
  const In* k = static_cast<const In*>(p.k.data) +
                core::offset_of(p.k, in.batch, block.key_head, in.first_key + first);
  const In* v = static_cast<const In*>(p.v.data) +
                core::offset_of(p.v, in.batch, block.key_head, in.first_key + first);
  const std::uint32_t ring =
      static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)) + warp * Shape::ring_bytes;
  int loaded = first;
  std::uint32_t load_place = 0;
  const auto load = [&] {
    if (loaded < end) {
      const std::uint32_t to = ring + load_place * 2 * Shape::tile_bytes;
      key_copy.template copy_rows<Shape::keys>(to, k, p.k.token_stride, end - loaded);
      value_copy.template copy_rows<Shape::keys>(to + Shape::tile_bytes, v, p.v.token_stride,
                                                 end - loaded);
      k += Shape::keys * p.k.token_stride;
      v += Shape::keys * p.v.token_stride;
      loaded += Shape::keys;
      load_place = load_place + 1 == Shape::steps ? 0 : load_place + 1;
    }
    end_copies();
  };
#pragma unroll
  for (int i = 0; i < Shape::steps - 1; ++i) {
    load();
  }
  wait_for_copies_but<Shape::steps - 1>();
  __syncthreads();  // the queries are there

  warp_rows<In, 1, Shape::dims / 8> rows;
  rows.clear();
  std::uint32_t place = 0;
#pragma unroll 1
  for (int begin = first; begin < end; begin += Shape::keys) {
    load();
    wait_for_copies_but<Shape::steps - 1>();
    synchronize_warp();
    const std::uint32_t keys = ring + place * 2 * Shape::tile_bytes;
    place = place + 1 == Shape::steps ? 0 : place + 1;
    float s[1][Shape::keys / 8][4];
    multiply_keys<In, Shape>(queries, keys, s);
    if (way.edited) {
      edit_scores(p, parts, Shape::rows, 0, begin, s[0]);
    }
    if (begin < all_first || begin + Shape::keys > all_end) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        mask_scores(memory.ranges[8 * h + lane / 4], begin, h, s[0]);
      }
    }
    std::uint32_t weights[1][Shape::keys / 16][4];
    float factor[1][2];
    rows.weigh(s, way.unit_2, factor);
    pack_weights<In>(s, weights);
    add_values<In, Shape>(rows, keys + Shape::tile_bytes, weights, factor);
    synchronize_warp();
  }

  // What the chunk's warps have is combined by all of its blocks, each some rows' and columns'.
  auto* const sums = reinterpret_cast<float*>(shared + warp * Shape::ring_bytes);
  constexpr int row_floats = few_memory<Shape>::row_floats;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    double whole = rows.sum[0][h].whole();
    whole += shuffle_xor(whole, 1);
    whole += shuffle_xor(whole, 2);
    const int row = 8 * h + lane / 4;
    const float max = rows.max[0][h];
    bool finite = true;
#pragma unroll
    for (int c = 0; c < Shape::dims / 8; ++c) {
      const float first_value = rows.o[0][c][2 * h];
      const float second_value = rows.o[0][c][2 * h + 1];
      finite = finite && first_value - first_value == 0 && second_value - second_value == 0;
      *reinterpret_cast<float2*>(sums + row * row_floats + 8 * c + lane % 4 * 2) =
          make_float2(first_value, second_value);
    }
    const float top = max * way.unit;
    if (top == infinity<float> || (top == -infinity<float> && max != top) ||
        (whole == whole && !finite)) {
      atomicOr(&memory.careful, 1U << row);
    }
    if (lane % 4 == 0) {
      memory.max[warp][row] = max;
      memory.sum[warp][row] = whole;
    }
  }
  cluster_or_block::synchronize();
  constexpr float one = weight_exponent<In> == 0 ? 1.0F : 0x1p-15F;
  const auto v_dim = static_cast<int>(p.v.dim);
  const int states = parts.blocks_each * Shape::warps;
  unsigned careful = lane < parts.blocks_each ? cluster_or_block::load(&memory.careful, lane) : 0U;
  careful = __reduce_or_sync(0xffffffffU, careful);
  const int column_groups = (v_dim + 31) / 32;
#pragma unroll 1
  for (int unit = block.rank * Shape::warps + warp; unit < rows_here * column_groups;
       unit += states) {
    const int row = unit / column_groups;
    const int column = unit % column_groups * 32 + lane;
    if ((careful >> row & 1U) != 0) {
      continue;
    }
    // A lane has the state of one warp.
    float max = -infinity<float>;
    double sum = 0;
    if (lane < states) {
      max = cluster_or_block::load(&memory.max[lane % Shape::warps][row], lane / Shape::warps);
      sum = cluster_or_block::load(&memory.sum[lane % Shape::warps][row], lane / Shape::warps);
    }
    float top = max;
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
      top = fmaxf(top, shuffle_xor(top, mask));
    }
    const float factor = max == top                ? 1.0F
                         : max == -infinity<float> ? 0.0F
                                                   : fast_exp2((max - top) * way.unit_2);
    sum *= static_cast<double>(factor * one);
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
      sum += shuffle_xor(sum, mask);
    }
    float whole = 0;
#pragma unroll 1
    for (int rank = 0; rank < parts.blocks_each; ++rank) {
#pragma unroll
      for (int w = 0; w < Shape::warps; ++w) {
        const float of_warp = shuffle(factor, rank * Shape::warps + w);
        const float own =
            cluster_or_block::load(reinterpret_cast<const float*>(shared + w * Shape::ring_bytes) +
                                       row * row_floats + (column < v_dim ? column : 0),
                                   rank);
        whole += of_warp == 0 ? 0.0F : own * of_warp;
      }
    }
    top *= way.unit;
    if (parts.chunks > 1) {
      const std::int64_t place_of_row = block.place(p, row);
      if (column == 0) {
        parts.states[place_of_row] = {static_cast<double>(top), sum};
      }
      if (column < v_dim) {
        parts.weighted[place_of_row * v_dim + column] = whole * one;
      }
      continue;
    }
    const std::int64_t head = block.key_head * group + row % group;
    const std::int64_t token = in.first_query + row / group;
    const auto finish = core::attention_finish<float>::of(
        p, head, core::public_state(top, static_cast<float>(sum)));
    if (column == 0) {
      core::write_attention_state(p, in.batch, head, token, finish.both.whole);
    }
    auto output = attention_output<float>::of(p, finish);
    output.factor *= one;
    if (column < v_dim) {
      store_value<In>(p.out, core::offset_of(p.out, in.batch, head, token) + column, output(whole));
    }
  }
  if (block.rank == 0) {
#pragma unroll 1
    for (int row = warp; row < rows_here; row += Shape::warps) {
      if ((careful >> row & 1U) != 0) {
        attend_by_key<In>(p, parts, Shape::rows, row,
                          block.keys(block.row(p, row), chunk_begin, chunk_past));
      }
    }
  }
  cluster_or_block::synchronize();  // others have read what this block has
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
