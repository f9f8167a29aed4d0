// SPDX-License-Identifier: Apache-2.0
/// \file
/// attention of at most 16 rows for a key head by the matrix unit: what decides is how fast keys
/// and values are read. A block has a chunk of the keys, whose warps in turn have 16 of them, which
/// they read some steps ahead, without a word to each other before the end.
#pragma once

#include "attention_products.hpp"

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Keys of a chunk, by what a sequence has itself: many are more work than there are blocks for,
/// and few chunks are less to combine.
struct chunk_length {
  static constexpr int few = 512;
  static constexpr int many = 2048;
  static constexpr std::int64_t most_for_few = 8192;

  SOFTFOLD_HD static int of(std::int64_t keys) { return keys <= most_for_few ? few : many; }
  /// Chunks of a sequence of at most so many keys.
  static std::int64_t most_chunks(std::int64_t keys) {
    const std::int64_t of_few = divide_up(keys < most_for_few ? keys : most_for_few, few);
    const std::int64_t of_many = keys <= most_for_few ? 0 : divide_up(keys, many);
    return of_few > of_many ? of_few : of_many;
  }
};

/// Dimensions, rounded up; warps of a block; steps that a warp's copies are ahead; blocks on a
/// multiprocessor.
template <int dims_, int warps_, int steps_, int resident_>
struct few_shape {
  static constexpr int dims = dims_;
  static constexpr int warps = warps_;
  static constexpr int steps = steps_;
  static constexpr int resident = resident_;
  static constexpr int threads = 32 * warps;
  static constexpr int groups = 1;
  static constexpr int rows = 16;
  static constexpr int keys = 16;
  static constexpr int turn_keys = warps * keys;
  static_assert(chunk_length::few % turn_keys == 0);
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
};

/// Rows of a block: as a rule all of the key head.
template <class Shape>
__device__ inline int rows_of(const attention_block& block) {
  const std::int64_t left = block.all_rows - block.first_row;
  return left < Shape::rows ? static_cast<int>(left) : Shape::rows;
}

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

  const attention_block block = attention_block::of(p, parts, Shape::rows);
  if (block.first_row >= block.all_rows) {
    return;  // a packed sequence leaves a block
  }
  const core::attention_sequence& in = block.in;
  const int rows_here = rows_of<Shape>(block);
  const std::int64_t live_keys = in.live_keys(p);
  const int chunk_keys = chunk_length::of(live_keys);
  const auto past = static_cast<int>(live_keys);
  const std::int64_t chunk_first = block.chunk * chunk_keys;
  const int chunk_begin = chunk_first < past ? static_cast<int>(chunk_first) : past;
  const int chunk_past = past - chunk_begin < chunk_keys ? past : chunk_begin + chunk_keys;
  if (chunk_begin == chunk_past && parts.chunks > 1) {
    if (thread < rows_here) {
      parts.states[block.place(p, block.first_row + thread)] = {-infinity<double>, 0};
    }
    return;  // a sequence that is shorter than others has no such chunk
  }
  const auto queries = static_cast<std::uint32_t>(__cvta_generic_to_shared(query_memory));
  {
    using copy = tile_copy<typename Shape::tile, Shape::threads>;
    const copy query_copy = copy::of(p.q.dim, way.in_pieces, thread);
#pragma unroll 1
    for (int r = query_copy.first_row; r < Shape::rows; r += copy::rows_a_turn) {
      query_copy.copy_row(queries, r, block.query<In>(p, block.row_at(r)), r < rows_here);
    }
    end_copies();
  }
  // Keys of the warp that some rows have, and that all have. Every warp finds out by itself, and
  // begins to read.
  const key_range own_row =
      key_range::of(block.row<float>(p, block.row_at(lane % Shape::rows)), chunk_begin, chunk_past);
  if (thread < Shape::rows) {
    memory.ranges[thread] = own_row;
  }
  const bool own_live = own_row.first < own_row.end;
  int first = __reduce_min_sync(0xffffffffU, own_live ? own_row.first : chunk_past);
  const int end = __reduce_max_sync(0xffffffffU, own_live ? own_row.end : chunk_begin);
  const bool is_empty = first >= end;
  const int all_first = __reduce_max_sync(0xffffffffU, own_row.first);
  const int all_end = __reduce_min_sync(0xffffffffU, own_row.end);
  // The warps read in turn, so that what a block reads at a time is together.
  first = first / Shape::turn_keys * Shape::turn_keys + warp * Shape::keys;

  using copy = tile_copy<typename Shape::tile, 32>;
  const copy key_copy = copy::of(p.k.dim, way.in_pieces, lane);
  const copy value_copy = copy::of(p.v.dim, way.in_pieces, lane);
  const In* k = block.token<In>(p.k, first);
  const In* v = block.token<In>(p.v, first);
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
      k += Shape::turn_keys * p.k.token_stride;
      v += Shape::turn_keys * p.v.token_stride;
      loaded += Shape::turn_keys;
      load_place = load_place + 1 == Shape::steps ? 0 : load_place + 1;
    }
    end_copies();
  };
#pragma unroll
  for (int i = 0; i < Shape::steps - 1; ++i) {
    load();
  }
  wait_for_copies_but<Shape::steps - 1>();
  __syncthreads();  // the queries and the ranges are there

  warp_rows<In, 1, Shape::dims / 8> rows;
  rows.clear();
  std::uint32_t place = 0;
#pragma unroll 1
  for (int begin = first; begin < end; begin += Shape::turn_keys) {
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

  // The warps' states in their order.
  auto* const sums = reinterpret_cast<float*>(shared + warp * Shape::ring_bytes);
  constexpr int row_floats = few_memory<Shape>::row_floats;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    double whole = rows.sum[0][h].whole();
    whole += shuffle_xor(whole, 1);
    whole += shuffle_xor(whole, 2);
    const int row = 8 * h + lane / 4;
    if (lane % 4 == 0) {
      memory.max[warp][row] = rows.max[0][h];
      memory.sum[warp][row] = whole;
    }
#pragma unroll
    for (int c = 0; c < Shape::dims / 8; ++c) {
      *reinterpret_cast<float2*>(sums + row * row_floats + 8 * c + lane % 4 * 2) =
          make_float2(rows.o[0][c][2 * h], rows.o[0][c][2 * h + 1]);
    }
  }
  __syncthreads();
  constexpr float one = weight_exponent<In> == 0 ? 1.0F : 0x1p-15F;
  const auto v_dim = static_cast<int>(p.v.dim);
#pragma unroll 1
  for (int row = warp; row < rows_here; row += Shape::warps) {
    float top = -infinity<float>;
#pragma unroll
    for (int w = 0; w < Shape::warps; ++w) {
      top = fmaxf(top, memory.max[w][row]);
    }
    float factors[Shape::warps];
    double sum = 0;
#pragma unroll
    for (int w = 0; w < Shape::warps; ++w) {
      const float max = memory.max[w][row];
      factors[w] = max == top                ? 1.0F
                   : max == -infinity<float> ? 0.0F
                                             : fast_exp2((max - top) * way.unit_2);
      sum += memory.sum[w][row] * static_cast<double>(factors[w]);
    }
    sum *= static_cast<double>(one);
    const float max = top * way.unit;
    const auto weighted = [&](int column) {
      float whole = 0;
#pragma unroll
      for (int w = 0; w < Shape::warps; ++w) {
        const float own = reinterpret_cast<const float*>(
            shared + w * Shape::ring_bytes)[row * row_floats + column];
        whole += factors[w] == 0 ? 0.0F : own * factors[w];
      }
      return whole;
    };
    bool by_key = max == infinity<float> || (max == -infinity<float> && top != max);
    if (parts.chunks > 1) {
      const std::int64_t place_of_row = block.place(p, block.first_row + row);
      if (lane == 0) {
        parts.states[place_of_row] = {static_cast<double>(max), sum};
      }
      for (int column = lane; column < (is_empty ? 0 : v_dim); column += 32) {
        const float own = weighted(column);
        by_key = by_key || (own != own && sum == sum);
        parts.weighted[place_of_row * v_dim + column] = own * one;
      }
    } else {
      const auto at = head_and_token::of(p, block.key_head, block.first_row + row);
      const std::int64_t head = at.head;
      const std::int64_t token = in.first_query + at.token;
      const auto finish = core::attention_finish<float>::of(
          p, head, core::public_state(max, static_cast<float>(sum)));
      if (lane == 0) {
        core::write_attention_state(p, in.batch, head, token, finish.both.whole);
      }
      auto output = attention_output<float>::of(p, finish);
      output.factor *= one;
      const std::int64_t to = core::offset_of(p.out, in.batch, head, token);
      for (int column = lane; column < v_dim; column += 32) {
        const float own = weighted(column);
        by_key = by_key || (own != own && sum == sum);
        store_value<In>(p.out, to + column, output(own));
      }
    }
    if (ballot(by_key) != 0) {
      synchronize_warp();
      attend_by_key<In>(p, parts, Shape::rows, row, memory.ranges[row]);
    }
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
