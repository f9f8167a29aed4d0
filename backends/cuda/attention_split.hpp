// SPDX-License-Identifier: Apache-2.0
/// \file
/// What attention_exact.hpp multiplies f32 with: products of bf16, as each number is a sum of
/// three, and of the nine products of two of them the six largest are taken. (G. Henry, P. Tang, A.
/// Heinecke, Leveraging the bfloat16 artificial intelligence datatype for higher-precision
/// computations, 2019.)
#pragma once

#include "matrix_unit.hpp"

#include <gpu/attention/block.hpp>
#include <gpu/attention/elements.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Pairs of f32 as sums of pairs of bf16. The three products that are dropped are little more than
/// 2^-24 of all, at most.
constexpr int split_parts = 3;

__device__ inline void split_pair(float first, float second, std::uint32_t (&to)[split_parts]) {
#pragma unroll
  for (int part = 0; part < split_parts; ++part) {
    to[part] = to_bfloat16_pair(first, second);
    first -= __uint_as_float(to[part] << 16);
    second -= __uint_as_float(to[part] & 0xffff0000U);
  }
}

/// Products of the first parts, and of the others: the matrix unit cuts off what does not fit a
/// sum, and the small ones would lose that much, too.
struct split_sums {
  float large[4];
  float small[4];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      large[i] = 0;
      small[i] = 0;
    }
  }
  __device__ void multiply_add(const std::uint32_t (&a)[split_parts][4],
                               const std::uint32_t (&b0)[split_parts],
                               const std::uint32_t (&b1)[split_parts]) {
#pragma unroll
    for (int order = split_parts - 1; order > 0; --order) {
#pragma unroll
      for (int part = 0; part <= order; ++part) {
        gpu::multiply_add<bfloat16>(small, a[part], b0[order - part], b1[order - part]);
      }
    }
    gpu::multiply_add<bfloat16>(large, a[0], b0[0], b1[0]);
  }
  __device__ void write(float (&sums)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums[i] = large[i] + small[i];
    }
  }
};

/// A unit of attention_exact: dimensions, rounded up, and warps of a block.
template <int dims_, int warps_>
struct split_unit {
  using In = float;
  static constexpr int dims = dims_;
  static constexpr int threads = 32 * warps_;
  static constexpr int rows = 16 * warps_;
  static constexpr int keys = 32;
  /// The matrix unit's sums lose more than rounded ones.
  static constexpr int sum_keys = 512;

  using tile = matrix_tile<dims>;
  static constexpr int query_bytes = tile::bytes(rows);
  static constexpr int part_bytes = tile::bytes(keys);
  struct memory {
    alignas(16) unsigned char queries[split_parts * query_bytes];
    alignas(16) unsigned char keys[split_parts * part_bytes];
    alignas(16) unsigned char values[split_parts * part_bytes];
  };

  __device__ static void place_queries(const core::attention_problem& p,
                                       const attention_block& block, int warp_row, memory& shared) {
    const std::uint32_t queries = address(shared.queries);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const auto dim = static_cast<int>(p.q.dim);
#pragma unroll 1
    for (int r = warp_row; r < warp_row + 16; ++r) {
      const float* const row = block.query<float>(p, block.row_at(r));
#pragma unroll
      for (int at = 2 * lane; at < dims; at += 64) {
        std::uint32_t pair[split_parts];
        split_pair(at < dim ? row[at] : 0.0F, at + 1 < dim ? row[at + 1] : 0.0F, pair);
        const std::uint32_t to =
            queries + tile::at(r, at / 8) + static_cast<std::uint32_t>(at % 8 * 2);
#pragma unroll
        for (int part = 0; part < split_parts; ++part) {
          asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + part * query_bytes), "r"(pair[part])
                       : "memory");
        }
      }
    }
  }

  /// Through registers, where they become their parts.
  struct copy {
    static constexpr int each = 8;  ///< elements of a piece
    static constexpr int pieces = dims / each;
    static constexpr int rows_a_turn = threads / pieces;
    static constexpr int turns = keys / rows_a_turn;
    static_assert(turns * rows_a_turn == keys);

    std::uint32_t to;
    bool in_vectors;
    int first_row;
    int piece;
    int count;  ///< elements from the piece's first on that rows have
    std::int64_t stride;
    float next[turns][each];

    __device__ static copy of_keys(const core::attention_problem& p, memory& shared) {
      return of(p.k, address(shared.keys));
    }
    __device__ static copy of_values(const core::attention_problem& p, memory& shared) {
      return of(p.v, address(shared.values));
    }
    __device__ static copy of(const const_tensor_ref& from, std::uint32_t to) {
      const auto thread = static_cast<int>(threadIdx.x);
      const int piece = thread % pieces;
      return {to,
              is_in_vectors<float>(from),
              thread / pieces,
              piece,
              static_cast<int>(from.dim) - piece * each,
              from.token_stride,
              {}};
    }
    __device__ void begin(const float* first, int existing) {
#pragma unroll
      for (int i = 0; i < turns; ++i) {
        const int row = first_row + i * rows_a_turn;
        const bool exists = row < existing && count > 0;
        load_elements(exists ? first + row * stride + piece * each : first, exists ? count : 0,
                      in_vectors, next[i]);
      }
    }
    template <bool leaves_out>
    __device__ std::uint32_t end() {
      std::uint32_t left_out = 0;
#pragma unroll
      for (int i = 0; i < turns; ++i) {
        const int row = first_row + i * rows_a_turn;
        if (leaves_out) {
          float none = 0;  // twice the value, as the largest ones have no bf16
#pragma unroll
          for (int j = 0; j < each; ++j) {
            none = fmaf(next[i][j] + next[i][j], 0.0F, none);
          }
          if (none != 0) {  // NaN
            left_out |= 1U << row;
#pragma unroll
            for (int j = 0; j < each; ++j) {
              const float twice = next[i][j] + next[i][j];
              next[i][j] = twice - twice == 0 ? next[i][j] : 0.0F;
            }
          }
        }
        std::uint32_t words[split_parts][each / 2];
#pragma unroll
        for (int j = 0; j < each; j += 2) {
          std::uint32_t pair[split_parts];
          split_pair(next[i][j], next[i][j + 1], pair);
#pragma unroll
          for (int part = 0; part < split_parts; ++part) {
            words[part][j / 2] = pair[part];
          }
        }
#pragma unroll
        for (int part = 0; part < split_parts; ++part) {
          asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to + part * part_bytes +
                                                                        tile::at(row, piece)),
                       "r"(words[part][0]), "r"(words[part][1]), "r"(words[part][2]),
                       "r"(words[part][3])
                       : "memory");
        }
      }
      return left_out;
    }
  };

  __device__ static void multiply_keys(const memory& shared, int warp_row,
                                       float (&s)[keys / 8][4]) {
    const std::uint32_t queries = address(shared.queries) + tile::bytes(warp_row);
    const std::uint32_t all_keys = address(shared.keys);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    split_sums sums[keys / 8];
#pragma unroll
    for (int c = 0; c < keys / 8; ++c) {
      sums[c].clear();
    }
#pragma unroll 2
    for (int d = 0; d < dims / 16; ++d) {
      std::uint32_t q[split_parts][4];
#pragma unroll
      for (int part = 0; part < split_parts; ++part) {
        load_matrices(q[part],
                      queries + part * query_bytes + tile::at(lane % 16, 2 * d + lane / 16));
      }
#pragma unroll
      for (int c = 0; c < keys / 8; c += 2) {
        std::uint32_t k[4][split_parts];
#pragma unroll
        for (int part = 0; part < split_parts; ++part) {
          std::uint32_t four[4];
          load_matrices(four, all_keys + part * part_bytes +
                                  tile::at(8 * c + lane % 8 + lane / 16 * 8, 2 * d + lane / 8 % 2));
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            k[i][part] = four[i];
          }
        }
        sums[c].multiply_add(q, k[0], k[1]);
        sums[c + 1].multiply_add(q, k[2], k[3]);
      }
    }
#pragma unroll
    for (int c = 0; c < keys / 8; ++c) {
      sums[c].write(s[c]);
    }
  }

  struct weights {
    std::uint32_t parts[keys / 16][split_parts][4];

    __device__ void take(const float (&s)[keys / 8][4]) {
#pragma unroll
      for (int c = 0; c < keys / 8; ++c) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          std::uint32_t pair[split_parts];
          split_pair(s[c][2 * h], s[c][2 * h + 1], pair);
#pragma unroll
          for (int part = 0; part < split_parts; ++part) {
            parts[c / 2][part][c % 2 * 2 + h] = pair[part];
          }
        }
      }
    }
    /// Weight i of row h in column c of keys.
    [[nodiscard]] __device__ bool is_some(int c, int h, int i) const {
      return (parts[c / 2][0][c % 2 * 2 + h] >> 16 * i & 0xffffU) != 0;
    }
    __device__ void multiply_values(const memory& shared, int column, float (&own)[2][4]) const {
      const std::uint32_t values = address(shared.values);
      const int lane = static_cast<int>(threadIdx.x) % 32;
      split_sums sums[2];
      sums[0].clear();
      sums[1].clear();
#pragma unroll
      for (int j = 0; j < keys / 16; ++j) {
        std::uint32_t v[4][split_parts];
#pragma unroll
        for (int part = 0; part < split_parts; ++part) {
          std::uint32_t four[4];
          load_transposed(four, values + part * part_bytes +
                                    tile::at(16 * j + lane % 16, column / 8 + lane / 16));
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            v[i][part] = four[i];
          }
        }
        sums[0].multiply_add(parts[j], v[0], v[1]);
        sums[1].multiply_add(parts[j], v[2], v[3]);
      }
      sums[0].write(own[0]);
      sums[1].write(own[1]);
    }
  };

 private:
  __device__ static std::uint32_t address(const unsigned char* shared) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
