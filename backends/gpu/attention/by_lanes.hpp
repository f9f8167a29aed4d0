// SPDX-License-Identifier: Apache-2.0
/// \file
/// attention of few rows: what decides is how fast keys and values are read. A block has a chunk of
/// the keys, each of its warps some of them in a row; some lanes share a key, and go through the
/// warp's keys twice: for the scores, and, when all weights are known, for the weighted sums.
#pragma once

#include <gpu/attention/block.hpp>
#include <gpu/attention/elements.hpp>
#include <gpu/attention/results.hpp>
#include <gpu/attention/weights.hpp>
#include <gpu/contract.hpp>
#include <gpu/group/combine.hpp>
#include <gpu/row/vector_elements.hpp>

#include <core/attention.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Rows of a block; lanes that share a key, and vectors that each has of it.
template <class In, int rows_, int key_lanes_, int vectors_>
struct lanes_shape {
  static constexpr int rows = rows_;
  static constexpr int threads = 128;
  static constexpr int warp = 32;  ///< where there are more lanes, two of these are one
  static constexpr int warps = threads / warp;
  static constexpr int key_lanes = key_lanes_;
  static constexpr int warp_keys = 64;
  static constexpr int keys = warps * warp_keys;  ///< of a chunk
  static constexpr int groups = warp / key_lanes;
  static constexpr int ahead = 2;  ///< steps that loads are ahead, each of a key for each group
  static_assert(warp_keys / groups % ahead == 0);
  static constexpr int vector = vector_width<In>;
  static constexpr int each = vectors_ * vector;  ///< dimensions of a lane
  static constexpr int dims = key_lanes * each;
};

template <class A, class Shape>
struct lanes_memory {
  /// Rows whose sums are combined at a time.
  static constexpr int row_bytes = Shape::warps * Shape::dims * static_cast<int>(sizeof(A));
  static constexpr int together = Shape::rows * row_bytes <= 32768 ? Shape::rows : 1;

  union {
    A weights[Shape::warps][Shape::rows][Shape::warp_keys];  // before that, the scores
    A weighted[together][Shape::warps][Shape::dims];
  };
  A max[Shape::warps][Shape::rows];
  double sum[Shape::warps][Shape::rows];
  core::attention_row<A> row[Shape::rows];
};

/// What a lane has of a key, a value or a query: vectors at distance key_lanes.
template <class Shape, class In>
__device__ inline void load_share(const In* from, int lane, int dim, bool in_vectors,
                                  arithmetic_t<In> (&to)[Shape::each]) {
  constexpr int vector = Shape::vector;
#pragma unroll
  for (int i = 0; i < Shape::each; i += vector) {
    const int at = i * Shape::key_lanes + lane * vector;
    arithmetic_t<In> own[vector];
    load_elements(from + at, dim - at, in_vectors, own);
#pragma unroll
    for (int j = 0; j < vector; ++j) {
      to[i + j] = own[j];
    }
  }
}

/// A warp's keys or values on their way to its lanes, `ahead` steps before they are used.
template <class In, class Shape>
struct keys_reader {
  using A = arithmetic_t<In>;
  const In* next;  ///< of the first key, later of the next one, that the lane shares
  std::int64_t stride;
  int first;  ///< keys [first, end) are read, the others 0
  int end;
  int lane;
  int dim;
  bool in_vectors;
  A own[Shape::ahead][Shape::each];

  __device__ void read(int i, int key) {
    load_share<Shape>(next, lane, key >= first && key < end ? dim : 0, in_vectors, own[i]);
    next += Shape::groups * stride;
  }
  __device__ void begin() {
#pragma unroll
    for (int i = 0; i < Shape::ahead; ++i) {
      read(i, i * Shape::groups);
    }
  }
  /// body(key, elements), the key counted from the lane's first.
  template <class Body>
  __device__ void for_each(const Body& body) {
#pragma unroll 1
    for (int begin = 0; begin < Shape::warp_keys; begin += Shape::ahead * Shape::groups) {
#pragma unroll
      for (int i = 0; i < Shape::ahead; ++i) {
        const int key = begin + i * Shape::groups;
        body(key, own[i]);
        read(i, key + Shape::ahead * Shape::groups);
      }
    }
  }
};

template <class In, class Shape>
__global__ void __launch_bounds__(Shape::threads, least_resident(4))
    attention_by_lanes(const core::attention_problem p,
                       const attention_parts<arithmetic_t<In>> parts) {
  using A = arithmetic_t<In>;
  constexpr int rows = Shape::rows;
  constexpr int each = Shape::each;
  __shared__ lanes_memory<A, Shape> memory;
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / Shape::warp;
  const int lane = thread % Shape::warp;
  const int key_lane = lane % Shape::key_lanes;
  const int group = lane / Shape::key_lanes;

  const attention_block block = attention_block::of(p, parts, rows);
  if (block.first_row >= block.all_rows) {
    return;  // a packed sequence leaves a block
  }
  const std::int64_t left = block.all_rows - block.first_row;
  const int rows_here = left < rows ? static_cast<int>(left) : rows;
  if (thread < rows) {
    memory.row[thread] = block.row<A>(p, block.row_at(thread));
  }
  __syncthreads();
  // Keys of the chunk that some rows have.
  const std::int64_t chunk_begin = block.chunk * Shape::keys;
  keys_of_rows keys = keys_of_rows::within(chunk_begin, chunk_begin + Shape::keys);
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    keys.add(memory.row[r].first, memory.row[r].end);
  }
  if (keys.some_first >= keys.some_end && parts.chunks > 1) {
    if (thread < rows_here) {
      parts.states[block.place(p, block.first_row + thread)] = {-infinity<double>, 0};
    }
    return;
  }
  const auto v_dim = static_cast<int>(p.v.dim);
  // The warp's first key that the lane shares; of those from there on it reads some.
  const std::int64_t first = chunk_begin + warp * Shape::warp_keys + group;
  const auto within = [&](std::int64_t key) {
    return key < first                      ? 0
           : key - first > Shape::warp_keys ? Shape::warp_keys
                                            : static_cast<int>(key - first);
  };
  const auto reader = [&](const const_tensor_ref& from) {
    return keys_reader<In, Shape>{block.token<In>(from, first),
                                  from.token_stride,
                                  within(keys.some_first),
                                  within(keys.some_end),
                                  key_lane,
                                  static_cast<int>(from.dim),
                                  is_in_vectors<In>(from),
                                  {}};
  };
  A(&weights)[rows][Shape::warp_keys] = memory.weights[warp];
  {
    auto k = reader(p.k);
    k.begin();
    const bool q_in_vectors = is_in_vectors<In>(p.q);
    A q[rows][each];
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      load_share<Shape>(block.query<In>(p, block.row_at(r)), key_lane, static_cast<int>(p.q.dim),
                        q_in_vectors, q[r]);
    }
    k.for_each([&](int key, const A(&own)[each]) {
      A products[rows];
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        products[r] = 0;
#pragma unroll
        for (int i = 0; i < each; ++i) {
          products[r] = fma(q[r][i], own[i], products[r]);
        }
      }
#pragma unroll
      for (int mask = 1; mask < Shape::key_lanes; mask *= 2) {
#pragma unroll
        for (A& product : products) {
          product += shuffle_xor(product, mask);
        }
      }
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        if (key_lane == r % Shape::key_lanes) {
          weights[r][key + group] = products[r];
        }
      }
    });
  }
  auto v = reader(p.v);
  v.begin();
  synchronize_warp();
#pragma unroll 1
  for (int r = 0; r < rows; ++r) {
    constexpr int own_keys = Shape::warp_keys / Shape::warp;
    A s[own_keys];
    A top = -infinity<A>;
#pragma unroll
    for (int i = 0; i < own_keys; ++i) {
      const int key = lane + i * Shape::warp;
      s[i] = memory.row[r].score(weights[r][key], chunk_begin + warp * Shape::warp_keys + key);
      top = s[i] > top ? s[i] : top;
    }
    for (int mask = Shape::warp / 2; mask > 0; mask /= 2) {
      const A other = shuffle_xor(top, mask);
      top = other > top ? other : top;
    }
    A sum = 0;
#pragma unroll
    for (int i = 0; i < own_keys; ++i) {
      s[i] = weight_of(s[i], top);
      sum += s[i];
      weights[r][lane + i * Shape::warp] = s[i];
    }
    sum = sum_over_lanes(sum, Shape::warp);
    if (lane == 0) {
      memory.max[warp][r] = top;
      memory.sum[warp][r] = static_cast<double>(sum);
    }
  }
  synchronize_warp();
  A o[rows][each];
#pragma unroll
  for (int r = 0; r < rows; ++r) {
#pragma unroll
    for (int i = 0; i < each; ++i) {
      o[r][i] = 0;
    }
  }
  v.for_each([&](int key, const A(&own)[each]) {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const A weight = weights[r][key + group];
      if (weight != A{0}) {  // what is no key may hold anything
#pragma unroll
        for (int i = 0; i < each; ++i) {
          o[r][i] = fma(weight, own[i], o[r][i]);
        }
      }
    }
  });
#pragma unroll
  for (int mask = Shape::key_lanes; mask < Shape::warp; mask *= 2) {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
#pragma unroll
      for (int i = 0; i < each; ++i) {
        o[r][i] += shuffle_xor(o[r][i], mask);
      }
    }
  }

  // The warps' states in their order.
  constexpr int together = lanes_memory<A, Shape>::together;
  constexpr int row_threads = Shape::threads / together;
#pragma unroll
  for (int begin = 0; begin < rows; begin += together) {
    __syncthreads();  // nobody reads the weights, or the rows before, any more
    if (group == 0) {
#pragma unroll
      for (int r = 0; r < together; ++r) {
#pragma unroll
        for (int i = 0; i < each; i += Shape::vector) {
#pragma unroll
          for (int j = 0; j < Shape::vector; ++j) {
            memory.weighted[r][warp][i * Shape::key_lanes + key_lane * Shape::vector + j] =
                o[begin + r][i + j];
          }
        }
      }
    }
    __syncthreads();
    const int own_row = thread / row_threads;
    const int r = begin + own_row;
    if (r >= rows_here) {
      continue;
    }
    A top = -infinity<A>;
#pragma unroll
    for (int w = 0; w < Shape::warps; ++w) {
      top = memory.max[w][r] > top ? memory.max[w][r] : top;
    }
    A factors[Shape::warps];
    double sum = 0;
#pragma unroll
    for (int w = 0; w < Shape::warps; ++w) {
      factors[w] = rebasing_factor(memory.max[w][r], top);
      sum += memory.sum[w][r] == 0 ? 0.0 : memory.sum[w][r] * static_cast<double>(factors[w]);
    }
    const int first_column = thread % row_threads;
    const auto results =
        row_results<In>::of(p, parts, block, block.first_row + r, top, sum, first_column == 0);
    for (int column = first_column; column < v_dim; column += row_threads) {
      A whole = 0;
#pragma unroll
      for (int w = 0; w < Shape::warps; ++w) {
        whole += factors[w] == A{0} ? A{0} : memory.weighted[own_row][w][column] * factors[w];
      }
      results.write(p, parts, column, whole);
    }
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
