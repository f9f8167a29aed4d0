// SPDX-License-Identifier: Apache-2.0
/// \file
/// attention of at most 16 rows for a key head by the matrix unit: what decides is how fast keys
/// and values are read. There are as many blocks as a device has at once, and they stay: each has
/// one chunk of keys after the other, of which its warps in turn have 16, which they read some
/// steps ahead, into the next chunk while they end one.
#pragma once

#include "attention_products.hpp"
#include "attention_units.hpp"

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Dimensions and rows, rounded up; warps of a block; steps that a warp's copies are ahead; blocks
/// on a multiprocessor.
template <int dims_, int rows_, int warps_, int steps_, int resident_>
struct few_shape {
  static constexpr int dims = dims_;
  static constexpr int rows = rows_;
  static constexpr int warps = warps_;
  static constexpr int steps = steps_;
  static constexpr int resident = resident_;
  static constexpr int threads = 32 * warps;
  static constexpr int keys = 16;
  static constexpr int turn_keys = warps * keys;
  using tile = matrix_tile<dims>;

  static constexpr int tile_bytes = tile::bytes(keys);
  static constexpr int step_bytes = 2 * tile_bytes;
  static constexpr int ring_bytes = steps * step_bytes;  ///< of a warp
  static constexpr int query_bytes = tile::bytes(rows);  ///< of a unit; there are two at a time
  static constexpr int shared_bytes = warps * ring_bytes + 2 * query_bytes;

  /// From a row's weighted sums to the next one's: in four rows other banks, if there is room.
  static constexpr int words = step_bytes / static_cast<int>(sizeof(float));
  static constexpr int sum_pitch = rows * (dims + 4) <= words ? dims + 4 : dims;
  static_assert(rows * sum_pitch <= words);
};

/// What the warps of a block tell each other at the end of a unit.
template <class Shape>
struct few_memory {
  float max[Shape::warps][Shape::rows];
  double sum[Shape::warps][Shape::rows];
  const float* sums[Shape::warps];
};

/// A warp's rows: maxima, sums and weighted sums. Keys, and then the values' dimensions, are the
/// rows of the matrix unit's products, of which there have to be 16, and queries the columns, 8 to
/// a group: a lane has, g = lane / 4 and t = lane % 4, of queries 2 t and the next keys g and
/// g + 8, and of each 16 dimensions g and g + 8.
template <class In, class Shape>
struct few_rows {
  static constexpr int groups = Shape::rows / 8;

  float o[groups][Shape::dims / 16][4];
  float max[groups][2];
  carried_sum<float> sum[groups][2];

  __device__ void clear() {
#pragma unroll
    for (int g = 0; g < groups; ++g) {
#pragma unroll
      for (int i = 0; i < Shape::dims / 4; ++i) {
        o[g][i / 4][i % 4] = 0;
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        max[g][j] = -infinity<float>;
        sum[g][j] = {};
      }
    }
  }

  /// Products of a tile's keys with the queries.
  __device__ static void multiply(std::uint32_t keys, std::uint32_t queries,
                                  float (&s)[groups][4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float own[2][groups][4];  // two sums, which do not wait for each other
#pragma unroll
    for (int i = 0; i < 8 * groups; ++i) {
      own[i / (4 * groups)][i / 4 % groups][i % 4] = 0;
    }
#pragma unroll
    for (int d = 0; d < Shape::dims / 16; d += 2) {
      std::uint32_t k[2][4];
      std::uint32_t q[groups][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        load_matrices(k[i], keys + Shape::tile::at(lane % 16, 2 * (d + i) + lane / 16));
      }
#pragma unroll
      for (int g = 0; g < groups; ++g) {
        load_matrices(q[g], queries + Shape::tile::at(8 * g + lane % 8, 2 * d + lane / 8));
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          multiply_add<In>(own[i][g], k[i], q[g][2 * i], q[g][2 * i + 1]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4 * groups; ++i) {
      s[i / 4][i % 4] = own[0][i / 4][i % 4] + own[1][i / 4][i % 4];
    }
  }

  /// Scores to weights, and their maxima and sums to the rows'; `factor` is what the rows' earlier
  /// weighted sums become multiplied with.
  __device__ void weigh(float (&s)[groups][4], float unit_2, float (&factor)[groups][2]) {
#pragma unroll
    for (int g = 0; g < groups; ++g) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float before = max[g][j];
        float top = fmaxf(before, fmaxf(s[g][j], s[g][2 + j]));
#pragma unroll
        for (int distance = 4; distance < 32; distance *= 2) {
          top = fmaxf(top, shuffle_xor(top, distance));
        }
        const float anchor = top == -infinity<float> ? 0.0F : top;
        factor[g][j] = before == top ? 1.0F : fast_exp2((before - anchor) * unit_2);
        max[g][j] = top;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float& own = s[g][2 * h + j];
          own = weight_of<In>(own - anchor, unit_2);
        }
        sum[g][j].add(factor[g][j], s[g][j] + s[g][2 + j]);
      }
    }
  }

  /// The weighted values of a tile. They are added up by themselves first: the matrix unit does not
  /// round, it cuts off, which would show after many tiles.
  __device__ void add_values(std::uint32_t values, const float (&s)[groups][4],
                             const float (&factor)[groups][2]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    std::uint32_t weights[groups][2];
#pragma unroll
    for (int g = 0; g < groups; ++g) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        weights[g][h] =
            transposed(std::is_same_v<In, half> ? to_half_pair(s[g][2 * h], s[g][2 * h + 1])
                                                : to_bfloat16_pair(s[g][2 * h], s[g][2 * h + 1]));
      }
    }
#pragma unroll
    for (int c = 0; c < Shape::dims / 16; ++c) {
      std::uint32_t v[4];
      load_transposed(v, values + Shape::tile::at(lane % 8 + lane / 16 * 8, 2 * c + lane / 8 % 2));
#pragma unroll
      for (int g = 0; g < groups; ++g) {
        float own[4] = {0, 0, 0, 0};
        multiply_add<In>(own, v, weights[g][0], weights[g][1]);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          o[g][c][i] = fmaf(o[g][c][i], factor[g][i % 2], own[i]);
        }
      }
    }
  }

  /// To what the block's warps combine; the weighted sums to `sums`, rows of Shape::sum_pitch.
  __device__ void hand_over(few_memory<Shape>& memory, float* sums) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
    for (int g = 0; g < groups; ++g) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        double whole = sum[g][j].whole();
#pragma unroll
        for (int distance = 4; distance < 32; distance *= 2) {
          whole += shuffle_xor(whole, distance);
        }
        const int row = 8 * g + lane % 4 * 2 + j;
        if (lane / 4 == 0) {
          memory.max[warp][row] = max[g][j];
          memory.sum[warp][row] = whole;
        }
#pragma unroll
        for (int i = 0; i < Shape::dims / 8; ++i) {
          sums[row * Shape::sum_pitch + 8 * i + lane / 4] = o[g][i / 2][i % 2 * 2 + j];
        }
      }
    }
  }
};

/// The states of a unit's rows, from the warps' in their order; a row by a warp.
template <class In, class Shape>
__device__ inline void write_states(const core::attention_problem& p,
                                    const attention_parts<float>& parts, const attention_way& way,
                                    const few_unit& unit, const key_range* ranges,
                                    const few_memory<Shape>& memory) {
  constexpr float one = weight_unit<In>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const auto v_dim = static_cast<int>(p.v.dim);
#pragma unroll 1
  for (int row = warp; row < unit.rows; row += Shape::warps) {
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
      factors[w] = max == -infinity<float> ? 0.0F
                   : max == top            ? 1.0F
                                           : fast_exp2((max - top) * way.unit_2);
      sum += memory.sum[w][row] * static_cast<double>(factors[w]);
    }
    sum *= static_cast<double>(one);
    const float max = top * way.unit;
    if (lane == 0) {
      parts.states[unit.place + row] = {static_cast<double>(max), sum};
    }
    bool by_key = max == infinity<float> || (max == -infinity<float> && top != max);
    float* const to = parts.weighted + (unit.place + row) * v_dim;
#pragma unroll 1
    for (int column = lane * 4; column < v_dim; column += 4 * 32) {
      float whole[4] = {};
#pragma unroll
      for (int w = 0; w < Shape::warps; ++w) {
        if (factors[w] != 0) {
          const float4 own =
              *reinterpret_cast<const float4*>(memory.sums[w] + row * Shape::sum_pitch + column);
          whole[0] += own.x * factors[w];
          whole[1] += own.y * factors[w];
          whole[2] += own.z * factors[w];
          whole[3] += own.w * factors[w];
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        by_key = by_key || (whole[i] != whole[i] && sum == sum);
        whole[i] *= one;
      }
      if (v_dim % 4 == 0) {
        *reinterpret_cast<float4*>(to + column) =
            make_float4(whole[0], whole[1], whole[2], whole[3]);
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (column + i < v_dim) {
            to[column + i] = whole[i];
          }
        }
      }
    }
    if (ballot(by_key) != 0) {
      synchronize_warp();
      attend_by_key<In>(p, parts, Shape::rows, unit.block, row, ranges[row]);
    }
  }
}

/// Products of a lane's keys to the scores they become: out of registers, which have no index, and
/// back.
template <int groups>
__device__ inline void edit_scores(const core::attention_problem& p,
                                   const attention_parts<float>& parts, int block, int begin,
                                   float (&s)[groups][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int g = 0; g < groups; ++g) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float products[2] = {s[g][j], s[g][2 + j]};
      edit_scores(p, parts, 8 * groups, block, 8 * g + lane % 4 * 2 + j, begin + lane / 4, 1,
                  products, 2);
      s[g][j] = products[0];
      s[g][2 + j] = products[1];
    }
  }
}

/// Scores of keys that a query has not become those of no key.
template <int groups>
__device__ inline void mask_scores(const key_range* ranges, int begin, float (&s)[groups][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < 4 * groups; ++i) {
    const key_range row = ranges[i / 4 * 8 + lane % 4 * 2 + i % 2];
    const int key = begin + lane / 4 + i % 4 / 2 * 8;
    float& score = s[i / 4][i % 4];
    score = key >= row.first && key < row.end ? score : -infinity<float>;
  }
}

/// The queries of a unit to a tile, in turn by the block's warps.
template <class In, class Shape>
__device__ inline void load_queries(const core::attention_problem& p, const attention_block& block,
                                    int rows, bool in_pieces, std::uint32_t tile) {
  using copy = tile_copy<typename Shape::tile, 32>;
  const auto thread = static_cast<int>(threadIdx.x);
  const copy own = copy::of(p.q.dim, in_pieces, thread % 32);
#pragma unroll 1
  for (int row = thread / 32 * copy::rows_a_turn + own.first_row; row < Shape::rows;
       row += Shape::warps * copy::rows_a_turn) {
    const bool exists = row < rows;
    own.copy_row(
        tile, row,
        exists ? block.query<In>(p, block.first_row + row) : static_cast<const In*>(p.q.data),
        exists);
  }
}

template <class In, class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::resident)
    attention_few(const __grid_constant__ core::attention_problem p,
                  const __grid_constant__ attention_parts<float> parts, const attention_way way) {
  __shared__ few_units::starts_memory starts;
  __shared__ few_warp_memory warps[Shape::warps];
  __shared__ few_memory<Shape> memory;
  unsigned char* const shared = dynamic_shared_memory();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  let_next_begin();
  const auto all = few_units::of(p, parts, Shape::rows, starts);
  few_warp_memory& own = warps[warp];
  unsigned char* const ring_memory = shared + warp * Shape::ring_bytes;
  const auto ring = static_cast<std::uint32_t>(__cvta_generic_to_shared(ring_memory));
  const auto queries = static_cast<std::uint32_t>(
      __cvta_generic_to_shared(shared + Shape::warps * Shape::ring_bytes));
  using copy = tile_copy<typename Shape::tile, 32>;
  const copy key_copy = copy::of(p.k.dim, way.in_pieces, lane);
  const copy value_copy = copy::of(p.v.dim, way.in_pieces, lane);

  // Units that have begun to be read.
  int next = static_cast<int>(blockIdx.x);
  int opened = 0;
  // What is read next, and how many steps the ring holds.
  const In* k = nullptr;
  const In* v = nullptr;
  int read = 0;
  int read_end = 0;
  int read_slot = 0;
  int held = 0;
  const auto fill = [&](int done) {
    synchronize_warp();  // lanes that went different ways would copy by parts of sectors
#pragma unroll 1
    while (held < Shape::steps) {
      attention_block block{};
      const bool begins = read >= read_end;
      const int at = opened % 2;
      if (begins) {
        if (next >= all.count() || opened - done >= 2) {
          break;
        }
        const int number = all.block_of(next);
        block = attention_block::of(p, parts, Shape::rows, number);
        own.template set<Shape>(at, p, parts, way, block, number);
        read = own.units[at].first;
        read_end = own.units[at].end;
        k = block.token<In>(p.k, read);
        v = block.token<In>(p.v, read);
        next += static_cast<int>(gridDim.x);
        ++opened;
      }
      const bool reads = read < read_end;
      if (reads) {
        const std::uint32_t to = ring + static_cast<std::uint32_t>(read_slot * Shape::step_bytes);
        key_copy.template copy_rows<Shape::keys>(to, k, p.k.token_stride, read_end - read);
        value_copy.template copy_rows<Shape::keys>(to + Shape::tile_bytes, v, p.v.token_stride,
                                                   read_end - read);
        k += Shape::turn_keys * p.k.token_stride;
        v += Shape::turn_keys * p.v.token_stride;
        read += Shape::turn_keys;
        read_slot = read_slot + 1 == Shape::steps ? 0 : read_slot + 1;
        ++held;
      }
      if (begins) {  // after the first keys, which take longest
        load_queries<In, Shape>(p, block, own.units[at].rows, way.in_pieces,
                                queries + static_cast<std::uint32_t>(at * Shape::query_bytes));
      }
      if (reads) {
        end_copies();
      }
    }
  };
  const auto wait_for_step = [&] {
    if (held == Shape::steps) {
      wait_for_copies_but<Shape::steps - 1>();
    } else if (held == Shape::steps - 1) {
      wait_for_copies_but<Shape::steps - 2>();
    } else {
      wait_for_copies_but<0>();
    }
  };

  few_rows<In, Shape> rows;
  int slot = 0;
  int done = 0;
#pragma unroll 1
  for (int i = static_cast<int>(blockIdx.x); i < all.count(); i += static_cast<int>(gridDim.x)) {
    fill(done);
    const few_unit unit = own.units[done % 2];
    const std::uint32_t own_queries =
        queries + static_cast<std::uint32_t>(done % 2 * Shape::query_bytes);
    // The warp's part of the queries comes with its first step.
    if (unit.first < unit.end) {
      wait_for_step();
    } else {
      end_copies();
      wait_for_copies_but<0>();
    }
    __syncthreads();
    rows.clear();
    float* sums = nullptr;
#pragma unroll 1
    for (int begin = unit.first; begin < unit.end; begin += Shape::turn_keys) {
      fill(done);
      wait_for_step();
      synchronize_warp();
      const std::uint32_t keys = ring + static_cast<std::uint32_t>(slot * Shape::step_bytes);
      float s[Shape::rows / 8][4];
      rows.multiply(keys, own_queries, s);
      if (way.edited) {
        edit_scores(p, parts, unit.block, begin, s);
      }
      if (begin < unit.all_first || begin + Shape::keys > unit.all_end) {
        mask_scores(own.ranges[done % 2], begin, s);
      }
      float factor[Shape::rows / 8][2];
      rows.weigh(s, way.unit_2, factor);
      rows.add_values(keys + Shape::tile_bytes, s, factor);
      synchronize_warp();
      sums = reinterpret_cast<float*>(ring_memory + slot * Shape::step_bytes);
      slot = slot + 1 == Shape::steps ? 0 : slot + 1;
      --held;
    }
    // The weighted sums stand where the last step was, which is not read into before the barrier.
    if (sums != nullptr) {
      rows.hand_over(memory, sums);
    } else if (lane < Shape::rows) {
      memory.max[warp][lane] = -infinity<float>;
      memory.sum[warp][lane] = 0;
    }
    if (lane == 0) {
      memory.sums[warp] = sums;
    }
    __syncthreads();
    write_states<In>(p, parts, way, unit, own.ranges[done % 2], memory);
    ++done;
    __syncthreads();
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
