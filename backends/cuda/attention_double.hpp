// SPDX-License-Identifier: Apache-2.0
/// \file
/// What attention_exact.hpp multiplies f64 with.
#pragma once

#include "matrix_unit.hpp"

#include <gpu/attention/block.hpp>
#include <gpu/attention/elements.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// A unit of attention_exact: dimensions, rounded up, warps of a block, and keys of a tile.
template <int dims_, int warps_, int keys_>
struct double_unit {
  using In = double;
  static constexpr int dims = dims_;
  static constexpr int threads = 32 * warps_;
  static constexpr int rows = 16 * warps_;
  static constexpr int keys = keys_;
  static constexpr int sum_keys = 1024;

  // Tokens lie so far apart that what lanes read at a time, pairs of a query or key and single
  // values, is in different banks.
  static constexpr int stride = dims + 8;
  static constexpr int value_stride = dims + 2;
  static constexpr int key_elements = keys * stride;
  static constexpr int value_elements = keys * value_stride;
  struct memory {
    alignas(16) double queries[rows * stride];
    alignas(16) double keys[key_elements];
    alignas(16) double values[value_elements];
  };

  __device__ static void place_queries(const core::attention_problem& p,
                                       const attention_block& block, int warp_row, memory& shared) {
    const auto dim = static_cast<int>(p.q.dim);
#pragma unroll 1
    for (int r = warp_row; r < warp_row + 16; ++r) {
      const double* const row = block.query<double>(p, block.row_at(r));
#pragma unroll
      for (int at = static_cast<int>(threadIdx.x) % 32; at < dims; at += 32) {
        shared.queries[r * stride + at] = at < dim ? row[at] : 0;
      }
    }
  }

  /// While the threads go on.
  struct copy {
    static constexpr int each = 2;  ///< elements of a piece
    static constexpr int pieces = dims / each;
    static constexpr int rows_a_turn = threads / pieces;
    static constexpr int turns = keys / rows_a_turn;
    static_assert(turns * rows_a_turn == keys);

    double* to;
    int to_stride;
    bool in_vectors;
    int first_row;
    int column;
    int count;  ///< elements of the piece that rows have
    std::int64_t from_stride;

    __device__ static copy of_keys(const core::attention_problem& p, memory& shared) {
      return of(p.k, shared.keys, stride);
    }
    __device__ static copy of_values(const core::attention_problem& p, memory& shared) {
      return of(p.v, shared.values, value_stride);
    }
    __device__ static copy of(const const_tensor_ref& from, double* to, int to_stride) {
      const auto thread = static_cast<int>(threadIdx.x);
      const int row = thread / pieces;
      const int column = thread % pieces * each;
      const auto left = static_cast<int>(from.dim) - column;
      return {to + row * to_stride + column,
              to_stride,
              is_in_vectors<double>(from),
              row,
              column,
              left < 0      ? 0
              : left > each ? each
                            : left,
              from.token_stride};
    }
    __device__ void begin(const double* first, int existing) const {
#pragma unroll
      for (int i = 0; i < turns; ++i) {
        const int row = first_row + i * rows_a_turn;
        const int own = row < existing ? count : 0;
        const double* const from = own > 0 ? first + row * from_stride + column : first;
        double* const here = to + i * rows_a_turn * to_stride;
        if (in_vectors) {
          copy_ahead(static_cast<std::uint32_t>(__cvta_generic_to_shared(here)), from,
                     own * static_cast<int>(sizeof(double)));
        } else {
          here[0] = own > 0 ? from[0] : 0;
          here[1] = own > 1 ? from[1] : 0;
        }
      }
      end_copies();
    }
    template <bool leaves_out>
    __device__ std::uint32_t end() const {
      wait_for_copies_but<0>();
      std::uint32_t left_out = 0;
      if constexpr (leaves_out) {
#pragma unroll
        for (int i = 0; i < turns; ++i) {
          double* const here = to + i * rows_a_turn * to_stride;
#pragma unroll
          for (int j = 0; j < each; ++j) {
            if (!(here[j] - here[j] == 0)) {
              left_out |= 1U << (first_row + i * rows_a_turn);
              here[j] = 0;
            }
          }
        }
      }
      return left_out;
    }
  };

  /// The matrix unit's columns t and t + 4 of queries, and rows of keys, are dimensions 2 t and
  /// 2 t + 1.
  __device__ static void multiply_keys(const memory& shared, int warp_row,
                                       double (&s)[keys / 8][4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int own = lane / 4 * stride + lane % 4 * 2;
    const double* const queries = shared.queries + warp_row * stride + own;
    const double* const all_keys = shared.keys + own;
#pragma unroll
    for (int i = 0; i < keys / 8 * 4; ++i) {
      s[i / 4][i % 4] = 0;
    }
#pragma unroll 2
    for (int d = 0; d < dims; d += 8) {
      const auto near = *reinterpret_cast<const double2*>(queries + d);
      const auto far = *reinterpret_cast<const double2*>(queries + 8 * stride + d);
      const double q[4] = {near.x, far.x, near.y, far.y};
#pragma unroll
      for (int c = 0; c < keys / 8; ++c) {
        const auto k = *reinterpret_cast<const double2*>(all_keys + 8 * c * stride + d);
        multiply_add(s[c], q, k.x, k.y);
      }
    }
  }

  /// As they are: columns t and t + 4 of weights, and rows of values, are keys 2 t and 2 t + 1.
  struct weights {
    double s[keys / 8][4];

    __device__ void take(const double (&of)[keys / 8][4]) {
#pragma unroll
      for (int i = 0; i < keys / 8 * 4; ++i) {
        s[i / 4][i % 4] = of[i / 4][i % 4];
      }
    }
    [[nodiscard]] __device__ bool is_some(int c, int h, int i) const {
      return s[c][2 * h + i] != 0;
    }
    __device__ void multiply_values(const memory& shared, int column, double (&own)[2][4]) const {
      const int lane = static_cast<int>(threadIdx.x) % 32;
      const double* const values = shared.values + lane % 4 * 2 * value_stride + column + lane / 4;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        own[i / 4][i % 4] = 0;
      }
#pragma unroll
      for (int c = 0; c < keys / 8; ++c) {
        const double w[4] = {s[c][0], s[c][2], s[c][1], s[c][3]};
        const double* const v = values + 8 * c * value_stride;
        multiply_add(own[0], w, v[0], v[value_stride]);
        multiply_add(own[1], w, v[8], v[value_stride + 8]);
      }
    }
  };
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
