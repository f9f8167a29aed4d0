// SPDX-License-Identifier: Apache-2.0
/// \file
/// attention of many rows: a block has rows, queries of the heads that share keys, whose weighted
/// sums stay in its threads' registers while it goes through the keys in tiles. Both products, of
/// queries with keys and of weights with values, are sums of outer products of a thread's rows with
/// 4 of the other side, read from shared memory in slices.
#pragma once

#include <gpu/attention/block.hpp>
#include <gpu/attention/elements.hpp>
#include <gpu/attention/products.hpp>
#include <gpu/attention/results.hpp>
#include <gpu/attention/weights.hpp>
#include <gpu/contract.hpp>
#include <gpu/row/vector_elements.hpp>

#include <core/attention.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Rows and columns of a thread's weighted sums; 32 threads have a row.
template <class A, int own_rows_, int own_columns_>
struct tiles_shape {
  static constexpr int threads = 256;
  static constexpr int resident = 2;
  static constexpr int row_threads = 32;
  static constexpr int own_rows = own_rows_;
  static constexpr int rows = threads / row_threads * own_rows;
  static constexpr int each = 4;                   ///< consecutive keys or columns of a thread
  static constexpr int keys = row_threads * each;  ///< of a tile
  static constexpr int groups = own_columns_ / each;
  static constexpr int group_columns = row_threads * each;
  static constexpr int dims = 64 / static_cast<int>(sizeof(A));  ///< of a slice of products
  static constexpr int value_keys = dims;                        ///< of a slice of values
  static constexpr int vector = vector_width<A>;
  /// Sums of so many keys are added up one by one; such sums of so many tiles in A; and all of
  /// these in f64: the roundings of more would show.
  static constexpr int sum_keys = keys / 2;
  static constexpr int sum_tiles = 8;
};

/// Columns of a slice's matrix lie behind each other, each with room that spreads them over banks.
/// One slice is written while another is read.
template <class A, class Shape>
struct alignas(16) tiles_memory {
  static constexpr int row_stride = Shape::rows + Shape::vector;
  static constexpr int key_stride = Shape::keys + Shape::vector;
  static constexpr int column_stride = Shape::group_columns;
  struct product_slice {
    A q[Shape::dims * row_stride];
    A k[Shape::dims * key_stride];
  };
  union slice {
    product_slice product;
    A v[Shape::value_keys * column_stride];
  };

  A weights[Shape::keys * row_stride];
  slice slices[2];
  A max[Shape::rows];
  A factor[Shape::rows];
  double sum[Shape::rows];
  std::int64_t first[Shape::rows];  ///< keys [first, end) of a row
  std::int64_t end[Shape::rows];
};

template <class In, class Shape>
__global__ void __launch_bounds__(Shape::threads, least_resident(Shape::resident))
    attention_by_tiles(const core::attention_problem p,
                       const attention_parts<arithmetic_t<In>> parts) {
  using A = arithmetic_t<In>;
  using memory_type = tiles_memory<A, Shape>;
  constexpr int vector = Shape::vector;
  constexpr int own_rows = Shape::own_rows;
  constexpr int each = Shape::each;
  auto& memory = *reinterpret_cast<memory_type*>(dynamic_shared_memory());
  const auto thread = static_cast<int>(threadIdx.x);
  const attention_block block = attention_block::of(p, parts, Shape::rows);
  if (block.first_row >= block.all_rows) {
    return;  // a packed sequence leaves a block
  }
  for (int r = thread; r < Shape::rows; r += Shape::threads) {
    // Rows past the last have no keys.
    const auto own = block.row<A>(p, block.row_at(r));
    memory.first[r] = own.first;
    memory.end[r] = block.first_row + r < block.all_rows ? own.end : own.first;
    memory.max[r] = -infinity<A>;
    memory.sum[r] = 0;
  }
  __syncthreads();
  // Keys of the chunk that some rows have, and that all have.
  const std::int64_t chunk_begin = block.chunk * parts.chunk_keys;
  const std::int64_t chunk_past = block.in.keys < chunk_begin + parts.chunk_keys
                                      ? block.in.keys
                                      : chunk_begin + parts.chunk_keys;
  keys_of_rows keys = keys_of_rows::within(chunk_begin, chunk_past);
#pragma unroll 1
  for (int r = 0; r < Shape::rows; ++r) {
    keys.add(memory.first[r], memory.end[r]);
  }
  const std::int64_t first =
      keys.some_first > chunk_begin ? keys.some_first / Shape::keys * Shape::keys : chunk_begin;
  const std::int64_t end = keys.some_end < chunk_past ? keys.some_end : chunk_past;
  // Keys of tiles in [keys.all_first, plain_end) have scores that are products and scale.
  const bool is_plain = p.options.softcap == 0 && p.options.bias.data == nullptr &&
                        p.options.alibi_slopes.data == nullptr;
  const std::int64_t plain_end = is_plain ? keys.all_end : chunk_begin;
  const auto scale = static_cast<A>(p.scale);

  const In* const k = block.token<In>(p.k, 0);
  const In* const v = block.token<In>(p.v, 0);
  const auto dim = static_cast<int>(p.q.dim);
  const auto v_dim = static_cast<int>(p.v.dim);
  const int row_thread = thread % Shape::row_threads;
  const int own = row_thread * each;  // keys of a tile, or columns of a group
  const int own_row = thread / Shape::row_threads * own_rows;

  // A slice of queries and keys on its way to shared memory: vectors of consecutive dimensions.
  constexpr int row_vectors = Shape::dims / vector;
  constexpr int q_vectors = (Shape::rows * row_vectors + Shape::threads - 1) / Shape::threads;
  constexpr int k_vectors = Shape::keys * row_vectors / Shape::threads;
  const int slice_dim = thread % row_vectors * vector;
  const int slice_row = thread / row_vectors;
  constexpr int turn_rows = Shape::threads / row_vectors;
  const In* q_rows[q_vectors];
#pragma unroll
  for (int i = 0; i < q_vectors; ++i) {
    q_rows[i] = block.query<In>(p, block.row_at((slice_row + i * turn_rows) % Shape::rows));
  }
  A next_q[q_vectors][vector] = {};
  A next_k[k_vectors][vector] = {};
  const bool q_in_vectors = is_in_vectors<In>(p.q);
  const bool k_in_vectors = is_in_vectors<In>(p.k);
  const bool whole_products = q_in_vectors && k_in_vectors && dim % Shape::dims == 0;
  const auto fetch_products = [&](std::int64_t begin, int d) {
    if (whole_products && end - begin >= Shape::keys) {
#pragma unroll
      for (int i = 0; i < q_vectors; ++i) {
        load_whole(q_rows[i] + d + slice_dim, next_q[i]);
      }
      const In* const from = k + (begin + slice_row) * p.k.token_stride + d + slice_dim;
#pragma unroll
      for (int i = 0; i < k_vectors; ++i) {
        load_whole(from + i * turn_rows * p.k.token_stride, next_k[i]);
      }
      return;
    }
    const int left = dim - d - slice_dim;
#pragma unroll
    for (int i = 0; i < q_vectors; ++i) {
      load_elements(q_rows[i] + d + slice_dim, left, q_in_vectors, next_q[i]);
    }
#pragma unroll
    for (int i = 0; i < k_vectors; ++i) {
      const std::int64_t key = begin + slice_row + i * turn_rows;
      load_elements(k + key * p.k.token_stride + d + slice_dim, key < end ? left : 0, k_in_vectors,
                    next_k[i]);
    }
  };
  const auto place_products = [&](int slice) {
    auto& to = memory.slices[slice].product;
#pragma unroll
    for (int j = 0; j < vector; ++j) {
#pragma unroll
      for (int i = 0; i < q_vectors; ++i) {
        if (Shape::rows * row_vectors >= Shape::threads || slice_row < Shape::rows) {
          to.q[(slice_dim + j) * memory_type::row_stride + slice_row + i * turn_rows] =
              next_q[i][j];
        }
      }
#pragma unroll
      for (int i = 0; i < k_vectors; ++i) {
        to.k[(slice_dim + j) * memory_type::key_stride + slice_row + i * turn_rows] = next_k[i][j];
      }
    }
  };
  // And one of values.
  constexpr int v_vectors = Shape::value_keys * Shape::group_columns / vector / Shape::threads;
  constexpr int key_vectors = Shape::group_columns / vector;
  const int slice_column = thread % key_vectors * vector;
  const int slice_key = thread / key_vectors;
  A next_v[v_vectors][vector] = {};
  const bool v_in_vectors = is_in_vectors<In>(p.v);
  const auto fetch_values = [&](std::int64_t begin, int first_column) {
    const int at = first_column + slice_column;
    if (v_in_vectors && first_column + Shape::group_columns <= v_dim &&
        end - begin >= Shape::value_keys) {
      const In* const from = v + (begin + slice_key) * p.v.token_stride + at;
#pragma unroll
      for (int i = 0; i < v_vectors; ++i) {
        load_whole(from + i * (Shape::threads / key_vectors) * p.v.token_stride, next_v[i]);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < v_vectors; ++i) {
      const std::int64_t key = begin + slice_key + i * (Shape::threads / key_vectors);
      load_elements(v + key * p.v.token_stride + at, key < end ? v_dim - at : 0, v_in_vectors,
                    next_v[i]);
    }
  };
  // Returns whether all of them are numbers.
  const auto place_values = [&](int slice) {
    bool numbers = true;
#pragma unroll
    for (int i = 0; i < v_vectors; ++i) {
      const int key = slice_key + i * (Shape::threads / key_vectors);
      write_shared(memory.slices[slice].v + key * memory_type::column_stride + slice_column,
                   next_v[i]);
#pragma unroll
      for (int j = 0; j < vector; ++j) {
        numbers = numbers && next_v[i][j] - next_v[i][j] == A{0};
      }
    }
    return numbers;
  };

  A o[Shape::groups][own_rows][each];
  // Sums of more tiles: in memory, as registers are scarce and these are seldom read.
  volatile double total[Shape::groups][own_rows][each];
#pragma unroll
  for (int g = 0; g < Shape::groups; ++g) {
    clear(o[g]);
#pragma unroll
    for (int r = 0; r < own_rows; ++r) {
#pragma unroll
      for (int j = 0; j < each; ++j) {
        total[g][r][j] = 0;
      }
    }
  }
  int slice = 0;
  bool numbers = true;
  if (first < end) {
    fetch_products(first, 0);
    place_products(0);
  }
  int tiles_left = Shape::sum_tiles;
  volatile A summed_max[own_rows];
#pragma unroll
  for (int r = 0; r < own_rows; ++r) {
    summed_max[r] = -infinity<A>;
  }
#pragma unroll 1
  for (std::int64_t begin = first; begin < end; begin += Shape::keys) {
    A products[own_rows][each];
    clear(products);
#pragma unroll 1
    for (int d = 0; d < dim; d += Shape::dims) {
      __syncthreads();  // the slice is there, and nobody reads the other
      const bool is_last = d + Shape::dims >= dim;
      is_last ? fetch_values(begin, 0) : fetch_products(begin, d + Shape::dims);
      const auto& own_slice = memory.slices[slice].product;
      add_products<Shape::dims, false>(own_slice.q + own_row, memory_type::row_stride,
                                       own_slice.k + own, memory_type::key_stride, products);
      slice ^= 1;
      if (is_last) {
        numbers = place_values(slice);
      } else {
        place_products(slice);
      }
    }

    // A thread's column of weights, or of scores.
    const auto own_weights = [&](int j) {
      return memory.weights + (own + j) * memory_type::row_stride + own_row;
    };
    const auto place_weights = [&] {
#pragma unroll
      for (int j = 0; j < each; ++j) {
        A column[own_rows];
#pragma unroll
        for (int r = 0; r < own_rows; ++r) {
          column[r] = products[r][j];
        }
        write_shared(own_weights(j), column);
      }
    };
    if (begin >= keys.all_first && begin + Shape::keys <= plain_end) {
#pragma unroll
      for (int r = 0; r < own_rows; ++r) {
#pragma unroll
        for (int j = 0; j < each; ++j) {
          products[r][j] *= scale;
        }
      }
    } else {
      place_weights();  // one by one, for code that is short
#pragma unroll 1
      for (int r = 0; r < own_rows; ++r) {
        const std::int64_t row_first = memory.first[own_row + r];
        const std::int64_t row_end = memory.end[own_row + r];
        const auto row = block.row<A>(p, block.row_at(own_row + r));
#pragma unroll 1
        for (int j = 0; j < each; ++j) {
          const std::int64_t key = begin + own + j;
          A& s = own_weights(j)[r];
          s = key < row_first || key >= row_end || key >= end ? -infinity<A> : row.score(s, key);
        }
      }
#pragma unroll
      for (int j = 0; j < each; ++j) {
        A column[own_rows];
        read_shared(own_weights(j), column);
#pragma unroll
        for (int r = 0; r < own_rows; ++r) {
          products[r][j] = column[r];
        }
      }
    }
    A top[own_rows];
    A sum[own_rows];
    read_shared(memory.max + own_row, top);
#pragma unroll
    for (int r = 0; r < own_rows; ++r) {
#pragma unroll
      for (int j = 0; j < each; ++j) {
        top[r] = products[r][j] > top[r] ? products[r][j] : top[r];
      }
    }
#pragma unroll
    for (int mask = 1; mask < Shape::row_threads; mask *= 2) {
#pragma unroll
      for (int r = 0; r < own_rows; ++r) {
        const A other = shuffle_xor(top[r], mask);
        top[r] = other > top[r] ? other : top[r];
      }
    }
#pragma unroll
    for (int r = 0; r < own_rows; ++r) {
      sum[r] = 0;
#pragma unroll
      for (int j = 0; j < each; ++j) {
        products[r][j] = weight_of(products[r][j], top[r]);
        sum[r] += products[r][j];
      }
    }
#pragma unroll
    for (int mask = 1; mask < Shape::row_threads; mask *= 2) {
#pragma unroll
      for (int r = 0; r < own_rows; ++r) {
        sum[r] += shuffle_xor(sum[r], mask);
      }
    }
    // Each of a row's states is one thread's.
    if (row_thread < own_rows) {
      A new_max = top[0];
      A new_sum = sum[0];
#pragma unroll
      for (int r = 1; r < own_rows; ++r) {
        new_max = row_thread == r ? top[r] : new_max;
        new_sum = row_thread == r ? sum[r] : new_sum;
      }
      const int row = own_row + row_thread;
      const A factor = rebasing_factor(memory.max[row], new_max);
      memory.max[row] = new_max;
      memory.factor[row] = factor;
      memory.sum[row] =
          memory.sum[row] * static_cast<double>(factor) + static_cast<double>(new_sum);
    }
    place_weights();

    const bool is_last_tile = begin + Shape::keys >= end;
    const bool ends_sum = --tiles_left == 0 || is_last_tile;
#pragma unroll
    for (int g = 0; g < Shape::groups; ++g) {
      if (g * Shape::group_columns < v_dim) {
        const bool is_last_group = (g + 1) * Shape::group_columns >= v_dim;
#pragma unroll 1
        for (int key = 0; key < Shape::keys;) {
          A sums[own_rows][each];
          clear(sums);
          const bool is_first = key == 0;
#pragma unroll 1
          for (int past = key + Shape::sum_keys; key < past;) {
            const bool leaves_out = __syncthreads_or(numbers ? 0 : 1) != 0;
            const A* const weights = memory.weights + key * memory_type::row_stride + own_row;
            const A* const values = memory.slices[slice].v + own;
            key += Shape::value_keys;
            const bool is_last = key == Shape::keys;
            if (!is_last) {
              fetch_values(begin + key, g * Shape::group_columns);
            } else if (!is_last_group) {
              fetch_values(begin, (g + 1) * Shape::group_columns);
            } else if (!is_last_tile) {
              fetch_products(begin + Shape::keys, 0);
            }
            if (leaves_out) {
              add_products<Shape::value_keys, true>(weights, memory_type::row_stride, values,
                                                    memory_type::column_stride, sums);
            } else {
              add_products<Shape::value_keys, false>(weights, memory_type::row_stride, values,
                                                     memory_type::column_stride, sums);
            }
            slice ^= 1;
            if (!is_last || !is_last_group) {
              numbers = place_values(slice);
            } else if (!is_last_tile) {
              place_products(slice);
            }
          }
          A factor[own_rows];
          read_shared(memory.factor + own_row, factor);
#pragma unroll
          for (int r = 0; r < own_rows; ++r) {
#pragma unroll
            for (int j = 0; j < each; ++j) {
              o[g][r][j] = fma(o[g][r][j], is_first ? factor[r] : A{1}, sums[r][j]);
            }
          }
        }
      }
    }
    if (ends_sum) {
      tiles_left = Shape::sum_tiles;
      // What was added up before has the maximum of then.
#pragma unroll
      for (int r = 0; r < own_rows; ++r) {
        const A max = memory.max[own_row + r];
        const auto factor = static_cast<double>(rebasing_factor(summed_max[r], max));
        summed_max[r] = max;
#pragma unroll
        for (int g = 0; g < Shape::groups; ++g) {
#pragma unroll
          for (int j = 0; j < each; ++j) {
            total[g][r][j] = total[g][r][j] * factor + static_cast<double>(o[g][r][j]);
            o[g][r][j] = 0;
          }
        }
      }
    }
  }

  synchronize_warp();  // a row's threads are of one warp
#pragma unroll
  for (int r = 0; r < own_rows; ++r) {
    const int row = own_row + r;
    const std::int64_t number = block.first_row + row;
    if (number >= block.all_rows) {
      continue;
    }
    const auto results =
        row_results<In>::of(p, parts, block, number, memory.max[row], memory.sum[row], own == 0);
#pragma unroll
    for (int g = 0; g < Shape::groups; ++g) {
#pragma unroll
      for (int j = 0; j < each; ++j) {
        const int column = g * Shape::group_columns + own + j;
        if (column < v_dim) {
          results.write(p, parts, column, static_cast<A>(total[g][r][j]));
        }
      }
    }
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
