// SPDX-License-Identifier: Apache-2.0
/// \file
/// attention of a row by one key after the other, for what a product of matrices cannot leave out.
#pragma once

#include "attention_keys.hpp"

#include <gpu/attention/results.hpp>
#include <gpu/group/combine.hpp>
#include <gpu/row/vector_elements.hpp>
#include <gpu/state/exponential.hpp>

#include <cstdint>
#include <limits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The sum of terms over many tiles, each rounded, with what the additions lost.
template <class A>
struct carried_sum {
  A sum = 0;
  A lost = 0;

  __device__ void add(A factor, A more) { core::add_carrying(sum, lost, factor, more); }
  [[nodiscard]] __device__ double whole() const {
    return static_cast<double>(sum) + static_cast<double>(lost);
  }
};

/// A row whose scores or values a product of matrices cannot take, because they are infinite or
/// NaN: by one warp, a key after the other, each weight of 0 left out. Of its keys those in
/// `chunk`.
template <class In>
__device__ __noinline__ void attend_by_key(const core::attention_problem& p,
                                           const attention_parts<arithmetic_t<In>>& parts,
                                           int rows_of_block, int block_number, int row_of_block,
                                           key_range chunk) {
  using A = arithmetic_t<In>;
  const attention_block block = attention_block::of(p, parts, rows_of_block, block_number);
  const std::int64_t number = block.first_row + row_of_block;
  constexpr int most_values = core::most_attention_dim / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const core::attention_row<A> row = block.row<A>(p, number);
  const auto keys = key_range::of(row, chunk.first, chunk.end);
  const In* const q = block.query<In>(p, number);
  const In* const k = block.token<In>(p.k, 0);
  const In* const v = block.token<In>(p.v, 0);
  const int dim = static_cast<int>(p.q.dim);
  const int v_dim = static_cast<int>(p.v.dim);
  A o[most_values] = {};
  A top = -infinity<A>;
  carried_sum<A> sum;
  bool is_nan = false;
  for (int key = keys.first; key < keys.end; ++key) {
    A product = 0;
    for (int i = lane; i < dim; i += 32) {
      product = fma(widen(q[i]), widen(k[key * p.k.token_stride + i]), product);
    }
    product = sum_over_lanes(product, 32);
    const A score = row.score(product, key);
    is_nan = is_nan || score != score;
    if (is_nan || score == -infinity<A> || top == infinity<A>) {
      continue;
    }
    A factor = 1;
    if (score > top) {
      factor = score == infinity<A> ? A{0} : exponential<precision::exact>(top - score);
      top = score;
    }
    const A weight = score == top ? A{1} : exponential<precision::exact>(score - top);
    sum.add(factor, weight);
#pragma unroll
    for (int i = 0; i < most_values; ++i) {
      const int at = lane + i * 32;
      if (at < v_dim) {
        const A before = factor == 0 ? A{0} : o[i] * factor;
        o[i] = weight == 0 ? before : fma(weight, widen(v[key * p.v.token_stride + at]), before);
      }
    }
  }
  const double whole = is_nan ? std::numeric_limits<double>::quiet_NaN() : sum.whole();
  const auto results = row_results<In>::of(p, parts, block, number, top, whole, lane == 0);
#pragma unroll
  for (int i = 0; i < most_values; ++i) {
    if (lane + i * 32 < v_dim) {
      results.write(p, parts, lane + i * 32, o[i]);
    }
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
