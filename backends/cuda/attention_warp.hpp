// SPDX-License-Identifier: Apache-2.0
/// \file
/// What kernels for attention by the matrix unit have in common: which keys a block's rows may see,
/// the exponentials of a warp's scores, and rows by one key after the other, for what a product of
/// matrices cannot leave out.
#pragma once

#include "matrix_unit.hpp"

#include <gpu/attention/parts.hpp>
#include <gpu/row/vector_elements.hpp>
#include <gpu/state/exponential.hpp>

#include <core/attention.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// What a launch knows of its problem.
struct attention_way {
  bool edited;     ///< scores are more than a positive scale times the products
  bool in_pieces;  ///< tokens begin at multiples of 16 bytes
  float unit;      ///< what a row's maximum is multiplied with to be that of its scores
  float unit_2;    ///< times log2 e

  static attention_way of(const core::attention_problem& p);
};

/// Keys [first, end) of a sequence.
struct key_range {
  int first;
  int end;
};

/// Which query of which head a row of a key head is. Division of 64 bits is slow.
struct head_and_token {
  std::int64_t head;
  std::int64_t token;

  __device__ static head_and_token of(const core::attention_problem& p, std::int64_t key_head,
                                      std::int64_t row) {
    const std::int64_t group = p.group();
    if (static_cast<std::uint64_t>(row) >> 32 == 0) {
      const auto number = static_cast<std::uint32_t>(row);
      const auto heads = static_cast<std::uint32_t>(group);
      return {key_head * group + number % heads, number / heads};
    }
    return {key_head * group + row % group, row / group};
  }
};

/// Which block of a launch this is.
struct attention_block {
  core::attention_sequence in;
  std::int64_t key_head;
  std::int64_t chunk;
  std::int64_t first_row;  ///< of the rows of the key head
  std::int64_t all_rows;

  /// Where masks end rows' keys the blocks with most of them come first.
  template <class A>
  __device__ static attention_block of(const core::attention_problem& p,
                                       const attention_parts<A>& parts, int rows) {
    int number = static_cast<int>(blockIdx.x);
    forget_origin(number);  // what is found here stays in no registers for a second time
    // A grid has fewer than 2^31 blocks, and so all of these are.
    auto block = static_cast<std::uint32_t>(number);
    const auto chunks = static_cast<std::uint32_t>(parts.chunks);
    const auto blocks = static_cast<std::uint32_t>(parts.blocks);
    const auto heads = static_cast<std::uint32_t>(p.k.heads);
    attention_block b{};
    b.chunk = block % chunks;
    block /= chunks;
    std::int64_t row_block = block % blocks;
    if (p.options.corner != causal::none && !p.is_packed()) {
      row_block = parts.blocks - 1 - row_block;
    }
    block /= blocks;
    b.key_head = block % heads;
    b.in = core::attention_sequence::with_block(p, block / heads, row_block, rows, b.first_row);
    b.all_rows = p.group() * b.in.queries;
    return b;
  }
  [[nodiscard]] __device__ core::attention_row<float> row(const core::attention_problem& p,
                                                          std::int64_t number) const {
    const auto at = head_and_token::of(p, key_head, number);
    return core::attention_row<float>::of(p, in, at.head, at.token);
  }
  /// The keys of a row, the last one's if there is none, within [begin, past).
  [[nodiscard]] __device__ key_range keys(const core::attention_row<float>& row, int begin,
                                          int past) const {
    const auto within = [&](std::int64_t key) {
      return key < begin ? begin : key > past ? past : static_cast<int>(key);
    };
    return {within(row.first), within(row.end)};
  }
  /// A row's place among the states of its chunk.
  [[nodiscard]] __device__ std::int64_t place(const core::attention_problem& p,
                                              std::int64_t row) const {
    return chunk * p.rows() +
           p.group() * ((in.batch * p.k.heads + key_head) * p.q.tokens + in.first_query) + row;
  }
};

/// The sum of terms over many tiles, each rounded to f32, with what the additions lost.
struct carried_sum {
  float sum = 0;
  float lost = 0;

  __device__ void add(float factor, float more) { core::add_carrying(sum, lost, factor, more); }
  [[nodiscard]] __device__ double whole() const {
    return static_cast<double>(sum) + static_cast<double>(lost);
  }
};

/// Weights are 2^this larger than they are, as f16 has no small numbers.
template <class In>
inline constexpr int weight_exponent = sizeof(In) == 2 && std::is_same_v<In, half> ? 15 : 0;

/// Products of a lane's row to the scores they become; `products` of keys first_key, the next, 8
/// further and so on. Not in line: what its caller has in registers is more important.
inline __device__ __noinline__ void edit_scores(const core::attention_problem& p,
                                                const attention_parts<float>& parts,
                                                int rows_of_block, int row_of_block, int first_key,
                                                float* products, int count) {
  const auto block = attention_block::of(p, parts, rows_of_block);
  const std::int64_t number = block.first_row + row_of_block;
  const std::int64_t last = block.all_rows - 1;
  const core::attention_row<float> row = block.row(p, number < last ? number : last);
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    products[i] = row.score(products[i], first_key + i / 2 * 8 + i % 2);
  }
}

/// Two neighbouring values of a row that begins at `to`, as far as they are in it.
template <class In>
__device__ inline void store_columns(const tensor_ref& out, std::int64_t to, int column, int v_dim,
                                     float first, float second) {
  if (out.type == dtype_of<In>) {
    In* const at = static_cast<In*>(out.data) + to + column;
    if (column + 1 < v_dim && reinterpret_cast<std::uintptr_t>(at) % 4 == 0) {
      *reinterpret_cast<std::uint32_t*>(at) =
          std::is_same_v<In, half> ? to_half_pair(first, second) : to_bfloat16_pair(first, second);
      return;
    }
  } else {
    float* const at = static_cast<float*>(out.data) + to + column;
    if (column + 1 < v_dim && reinterpret_cast<std::uintptr_t>(at) % 8 == 0) {
      *reinterpret_cast<float2*>(at) = make_float2(first, second);
      return;
    }
  }
  if (column < v_dim) {
    store_value<In>(out, to + column, first);
  }
  if (column + 1 < v_dim) {
    store_value<In>(out, to + column + 1, second);
  }
}

/// A row whose scores or values a product of matrices cannot take, because they are infinite or
/// NaN: by one warp, a key after the other, each weight of 0 left out.
template <class In>
__device__ __noinline__ void attend_by_key(const core::attention_problem& p,
                                           const attention_parts<float>& parts, int rows_of_block,
                                           int row_of_block, key_range keys) {
  const auto block = attention_block::of(p, parts, rows_of_block);
  const std::int64_t number = block.first_row + row_of_block;
  constexpr int most_values = core::most_attention_dim / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const core::attention_row<float> row = block.row(p, number);
  const In* const q =
      static_cast<const In*>(p.q.data) + core::offset_of(p.q, row.batch, row.head, row.token);
  const core::attention_sequence& in = block.in;
  const In* const k = static_cast<const In*>(p.k.data) +
                      core::offset_of(p.k, in.batch, block.key_head, in.first_key);
  const In* const v = static_cast<const In*>(p.v.data) +
                      core::offset_of(p.v, in.batch, block.key_head, in.first_key);
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
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
      product += shuffle_xor(product, mask);
    }
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
  if (parts.chunks > 1) {
    const std::int64_t place = block.place(p, number);
    if (lane == 0) {
      parts.states[place] = {static_cast<double>(top), whole};
    }
#pragma unroll
    for (int i = 0; i < most_values; ++i) {
      if (lane + i * 32 < v_dim) {
        parts.weighted[place * v_dim + lane + i * 32] = o[i];
      }
    }
    return;
  }
  const auto finish = core::attention_finish<float>::of(
      p, row.head, core::public_state(top, static_cast<float>(whole)));
  if (lane == 0) {
    core::write_attention_state(p, row.batch, row.head, row.token, finish.both.whole);
  }
  const auto output = attention_output<float>::of(p, finish);
  const std::int64_t to = core::offset_of(p.out, row.batch, row.head, row.token);
#pragma unroll
  for (int i = 0; i < most_values; ++i) {
    if (lane + i * 32 < v_dim) {
      store_value<In>(p.out, to + lane + i * 32, output(o[i]));
    }
  }
}

/// Scores of row h of a lane's two that are not of its keys become those of no key.
template <int columns>
__device__ inline void mask_scores(const key_range& row, int first_key, int h,
                                   float (&s)[columns][4]) {
  const int before = first_key + static_cast<int>(threadIdx.x) % 4 * 2;
  const int from = row.first - before;
  const int until = row.end - before;
#pragma unroll
  for (int c = 0; c < columns; ++c) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float& score = s[c][2 * h + i];
      score = 8 * c + i >= from && 8 * c + i < until ? score : -infinity<float>;
    }
  }
}

/// The 16-bit pairs of weights that the next product takes.
template <class In, int groups, int key_columns>
__device__ inline void pack_weights(const float (&s)[groups][key_columns][4],
                                    std::uint32_t (&weights)[groups][key_columns / 2][4]) {
#pragma unroll
  for (int g = 0; g < groups; ++g) {
#pragma unroll
    for (int c = 0; c < key_columns; ++c) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        weights[g][c / 2][c % 2 * 2 + h] =
            std::is_same_v<In, half> ? to_half_pair(s[g][c][2 * h], s[g][c][2 * h + 1])
                                     : to_bfloat16_pair(s[g][c][2 * h], s[g][c][2 * h + 1]);
      }
    }
  }
}

/// A warp's rows, in groups of 16: maxima, sums and weighted sums, of which a lane has those of the
/// rows lane / 4 and 8 further in each group, and there in each 8 columns 2 (lane % 4) and the
/// next.
template <class In, int groups, int columns>
struct warp_rows {
  float o[groups][columns][4];
  float max[groups][2];
  carried_sum sum[groups][2];

  __device__ void clear() {
#pragma unroll
    for (int g = 0; g < groups; ++g) {
#pragma unroll
      for (int c = 0; c < columns; ++c) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          o[g][c][i] = 0;
        }
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        max[g][h] = -infinity<float>;
        sum[g][h] = {};
      }
    }
  }

  /// Scores to weights, and their maxima and sums to the rows'; `factor` is what the rows' earlier
  /// weighted sums become multiplied with.
  template <int key_columns>
  __device__ void weigh(float (&s)[groups][key_columns][4], float unit_2,
                        float (&factor)[groups][2]) {
#pragma unroll
    for (int g = 0; g < groups; ++g) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float before = max[g][h];
        float top = before;
#pragma unroll
        for (int c = 0; c < key_columns; ++c) {
          top = fmaxf(top, fmaxf(s[g][c][2 * h], s[g][c][2 * h + 1]));
        }
        top = fmaxf(top, shuffle_xor(top, 1));
        top = fmaxf(top, shuffle_xor(top, 2));
        const float anchor = top == -infinity<float> ? 0.0F : top;
        factor[g][h] = before == top ? 1.0F : fast_exp2((before - anchor) * unit_2);
        max[g][h] = top;
        float totals[2] = {0, 0};
#pragma unroll
        for (int c = 0; c < key_columns; ++c) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& own = s[g][c][2 * h + i];
            own = weight_exponent<In> == 0
                      ? fast_exp2((own - anchor) * unit_2)
                      : fast_exp2(
                            fmaf(own - anchor, unit_2, static_cast<float>(weight_exponent<In>)));
            totals[i] += own;
          }
        }
        sum[g][h].add(factor[g][h], totals[0] + totals[1]);
      }
    }
  }

  /// The rows' results, or states of the chunk; the warp's first is row `warp_row` of the block.
  __device__ void write(const core::attention_problem& p, const attention_parts<float>& parts,
                        const attention_way& way, int rows_of_block, int warp_row,
                        const key_range* ranges) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const auto block = attention_block::of(p, parts, rows_of_block);
    const core::attention_sequence& in = block.in;
    const std::int64_t last_row = block.all_rows - 1;
    // Results. Weights and so both sums are 2^weight_exponent times what they mean.
    constexpr float one = weight_exponent<In> == 0 ? 1.0F : 0x1p-15F;
    const auto v_dim = static_cast<int>(p.v.dim);
    unsigned careful = 0;
#pragma unroll
    for (int g = 0; g < groups; ++g) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        double whole = sum[g][h].whole();
        whole += shuffle_xor(whole, 1);
        whole += shuffle_xor(whole, 2);
        whole *= static_cast<double>(one);
        const float top = max[g][h] * way.unit;
        bool is_nan = false;
#pragma unroll
        for (int c = 0; c < columns; ++c) {
          is_nan = is_nan || o[g][c][2 * h] != o[g][c][2 * h] ||
                   o[g][c][2 * h + 1] != o[g][c][2 * h + 1];
        }
        is_nan = shuffle_xor(static_cast<int>(is_nan), 1) != 0 || is_nan;
        is_nan = shuffle_xor(static_cast<int>(is_nan), 2) != 0 || is_nan;
        const bool by_key = top == infinity<float> ||
                            (top == -infinity<float> && max[g][h] != top) ||
                            (whole == whole && is_nan);
        const std::int64_t number = block.first_row + warp_row + 16 * g + 8 * h + lane / 4;
        const bool exists = number <= last_row;
        careful |= (exists && by_key ? 1U : 0U) << (2 * g + h);
        if (!exists || by_key) {
          continue;
        }
        if (parts.chunks > 1) {
          const std::int64_t place = block.place(p, number);
          if (lane % 4 == 0) {
            parts.states[place] = {static_cast<double>(top), whole};
          }
#pragma unroll
          for (int c = 0; c < columns; ++c) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              const int column = 8 * c + lane % 4 * 2 + i;
              if (column < v_dim) {
                parts.weighted[place * v_dim + column] = o[g][c][2 * h + i] * one;
              }
            }
          }
          continue;
        }
        const auto at = head_and_token::of(p, block.key_head, number);
        const std::int64_t head = at.head;
        const std::int64_t token = in.first_query + at.token;
        const auto finish = core::attention_finish<float>::of(
            p, head, core::public_state(top, static_cast<float>(whole)));
        if (lane % 4 == 0) {
          core::write_attention_state(p, in.batch, head, token, finish.both.whole);
        }
        auto output = attention_output<float>::of(p, finish);
        output.factor *= one;
        const std::int64_t to = core::offset_of(p.out, in.batch, head, token);
#pragma unroll
        for (int c = 0; c < columns; ++c) {
          store_columns<In>(p.out, to, 8 * c + lane % 4 * 2, v_dim, output(o[g][c][2 * h]),
                            output(o[g][c][2 * h + 1]));
        }
      }
    }
#pragma unroll 1
    for (int r = 0; r < 16 * groups; ++r) {
      const unsigned mine = careful >> (r / 8) & (r % 8 == lane / 4 ? 1U : 0U);
      if (ballot(mine != 0) != 0) {
        attend_by_key<In>(p, parts, rows_of_block, warp_row + r, ranges[warp_row + r]);
      }
    }
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
