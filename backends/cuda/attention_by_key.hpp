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

/// The sum of terms over many tiles, each rounded to f32, with what the additions lost.
struct carried_sum {
  float sum = 0;
  float lost = 0;

  __device__ void add(float factor, float more) { core::add_carrying(sum, lost, factor, more); }
  [[nodiscard]] __device__ double whole() const {
    return static_cast<double>(sum) + static_cast<double>(lost);
  }
};

/// A row whose scores or values a product of matrices cannot take, because they are infinite or
/// NaN: by one warp, a key after the other, each weight of 0 left out.
template <class In>
__device__ __noinline__ void attend_by_key(const core::attention_problem& p,
                                           const attention_parts<float>& parts, int rows_of_block,
                                           int block_number, int row_of_block, key_range keys) {
  const attention_block block = attention_block::of(p, parts, rows_of_block, block_number);
  const std::int64_t number = block.first_row + row_of_block;
  constexpr int most_values = core::most_attention_dim / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const core::attention_row<float> row = block.row<float>(p, number);
  const In* const q = block.query<In>(p, number);
  const In* const k = block.token<In>(p.k, 0);
  const In* const v = block.token<In>(p.v, 0);
  const int dim = static_cast<int>(p.q.dim);
  const int v_dim = static_cast<int>(p.v.dim);
  float o[most_values] = {};
  float top = -infinity<float>;
  carried_sum sum;
  bool is_nan = false;
  for (int key = keys.first; key < keys.end; ++key) {
    float product = 0;
    for (int i = lane; i < dim; i += 32) {
      product = fmaf(widen(q[i]), widen(k[key * p.k.token_stride + i]), product);
    }
    product = sum_over_lanes(product, 32);
    const float score = row.score(product, key);
    is_nan = is_nan || score != score;
    if (is_nan || score == -infinity<float> || top == infinity<float>) {
      continue;
    }
    float factor = 1;
    if (score > top) {
      factor = score == infinity<float> ? 0.0F : exponential<precision::exact>(top - score);
      top = score;
    }
    const float weight = score == top ? 1.0F : exponential<precision::exact>(score - top);
    sum.add(factor, weight);
#pragma unroll
    for (int i = 0; i < most_values; ++i) {
      const int at = lane + i * 32;
      if (at < v_dim) {
        const float before = factor == 0 ? 0.0F : o[i] * factor;
        o[i] = weight == 0 ? before : fmaf(weight, widen(v[key * p.v.token_stride + at]), before);
      }
    }
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const double whole = is_nan ? static_cast<double>(nan) : sum.whole();
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
