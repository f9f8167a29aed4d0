// SPDX-License-Identifier: Apache-2.0
/// \file
/// A warp's rows of attention by the matrix unit: the exponentials of their scores, their sums, and
/// what they become in the end.
#pragma once

#include "attention_by_key.hpp"

#include <gpu/attention/weights.hpp>
#include <gpu/state/exponential.hpp>

#include <cstdint>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Weights are 2^this larger than they are, as f16 has no small numbers, and the parts of those of
/// f32 are smaller than they.
template <class In>
inline constexpr int weight_exponent = std::is_same_v<In, half>    ? 15
                                       : std::is_same_v<In, float> ? 24
                                                                   : 0;
/// What sums of weights, and of weighted values, are multiplied with to be what they mean.
template <class In>
inline constexpr float weight_unit = 1.0F / (1 << weight_exponent<In>);

/// Of the two; NaN is passed over.
__device__ inline float larger(float a, float b) { return fmaxf(a, b); }
__device__ inline double larger(double a, double b) { return b > a || a != a ? b : a; }

/// Of a score so far from its row's maximum; unit_2: attention_way's.
template <class In>
__device__ inline float weight_of(float score, float unit_2) {
  return fast_exp2(weight_exponent<In> == 0
                       ? score * unit_2
                       : fmaf(score, unit_2, static_cast<float>(weight_exponent<In>)));
}

/// Two neighbouring values of a row that begins at `to`, as far as they are in it.
template <class In>
__device__ inline void store_columns(const tensor_ref& out, std::int64_t to, int column, int v_dim,
                                     arithmetic_t<In> first, arithmetic_t<In> second) {
  if constexpr (sizeof(In) == 8) {
    double* const at = static_cast<double*>(out.data) + to + column;
    if (column + 1 < v_dim && reinterpret_cast<std::uintptr_t>(at) % 16 == 0) {
      *reinterpret_cast<double2*>(at) = make_double2(first, second);
      return;
    }
  } else if (sizeof(In) == 2 && out.type == dtype_of<In>) {
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

/// Scores of row h of a lane's two that are not of its keys become those of no key.
template <int columns, class A>
__device__ inline void mask_scores(const key_range& row, int first_key, int h, A (&s)[columns][4]) {
  const int before = first_key + static_cast<int>(threadIdx.x) % 4 * 2;
  const int from = row.first - before;
  const int until = row.end - before;
#pragma unroll
  for (int c = 0; c < columns; ++c) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      A& score = s[c][2 * h + i];
      score = 8 * c + i >= from && 8 * c + i < until ? score : -infinity<A>;
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
  using A = arithmetic_t<In>;
  static constexpr bool is_exact = sizeof(In) >= 4;

  A o[groups][columns][4];
  A max[groups][2];
  carried_sum<A> sum[groups][2];

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
        max[g][h] = -infinity<A>;
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
            own = weight_of<In>(own - anchor, unit_2);
            totals[i] += own;
          }
        }
        sum[g][h].add(factor[g][h], totals[0] + totals[1]);
      }
    }
  }

  /// The same of exact scores, and exact weights. Returns bits of the lane's rows that have scores
  /// without weights, NaN or infinity.
  template <int key_columns>
  __device__ unsigned weigh_exactly(A (&s)[groups][key_columns][4], A (&factor)[groups][2]) {
    constexpr auto unit = static_cast<A>(1 << weight_exponent<In>);
    unsigned without = 0;
#pragma unroll
    for (int g = 0; g < groups; ++g) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const A before = max[g][h];
        A top = before;
        bool is_nan = false;
#pragma unroll
        for (int c = 0; c < key_columns; ++c) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            top = larger(top, s[g][c][2 * h + i]);
            is_nan = is_nan || s[g][c][2 * h + i] != s[g][c][2 * h + i];
          }
        }
        top = larger(top, shuffle_xor(top, 1));
        top = larger(top, shuffle_xor(top, 2));
        without |= is_nan || top == infinity<A> ? 1U << (2 * g + h) : 0U;
        const A anchor = top == -infinity<A> ? A{0} : top;
        factor[g][h] = rebasing_factor(before, top);
        max[g][h] = top;
        A totals[2] = {0, 0};
#pragma unroll
        for (int c = 0; c < key_columns; ++c) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            A& own = s[g][c][2 * h + i];
            own = exponential<precision::exact>(own - anchor) * unit;
            totals[i] += own;
          }
        }
        sum[g][h].add(factor[g][h], totals[0] + totals[1]);
      }
    }
    return without;
  }

  /// The rows' results, or states of the chunk; the warp's first is row `warp_row` of the block.
  /// Those with bits in `careful`, in one of their lanes, are made anew by one key after the other.
  __device__ void write(const core::attention_problem& p, const attention_parts<A>& parts,
                        const attention_way& way, int rows_of_block, int warp_row,
                        const key_range* ranges, unsigned careful = 0) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const attention_block block = attention_block::of(p, parts, rows_of_block);
    const core::attention_sequence& in = block.in;
    const std::int64_t last_row = block.all_rows - 1;
    constexpr A one = weight_unit<In>;
    const auto v_dim = static_cast<int>(p.v.dim);
    careful |= shuffle_xor(careful, 1);
    careful |= shuffle_xor(careful, 2);
#pragma unroll
    for (int g = 0; g < groups; ++g) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        double whole = sum[g][h].whole();
        whole += shuffle_xor(whole, 1);
        whole += shuffle_xor(whole, 2);
        whole *= static_cast<double>(one);
        const A top = is_exact ? max[g][h] : max[g][h] * static_cast<A>(way.unit);
        bool is_wrong = false;
#pragma unroll
        for (int c = 0; c < columns; ++c) {
#pragma unroll
          for (int i = 2 * h; i < 2 * h + 2; ++i) {
            const A from = is_exact ? o[g][c][i] : A{0};  // infinite sums of bf16 are right
            is_wrong = is_wrong || o[g][c][i] - from != o[g][c][i] - from;
          }
        }
        is_wrong = shuffle_xor(static_cast<int>(is_wrong), 1) != 0 || is_wrong;
        is_wrong = shuffle_xor(static_cast<int>(is_wrong), 2) != 0 || is_wrong;
        const bool by_key = (careful >> (2 * g + h) & 1U) != 0 || top == infinity<A> ||
                            (top == -infinity<A> && max[g][h] != top) ||
                            (whole == whole && is_wrong);
        const std::int64_t number = block.first_row + warp_row + 16 * g + 8 * h + lane / 4;
        const bool exists = number <= last_row;
        careful &= ~(1U << (2 * g + h));
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
        const auto finish =
            core::attention_finish<A>::of(p, head, core::public_state(top, static_cast<A>(whole)));
        if (lane % 4 == 0) {
          core::write_attention_state(p, in.batch, head, token, finish.both.whole);
        }
        auto output = attention_output<A>::of(p, finish);
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
        attend_by_key<In>(p, parts, rows_of_block, static_cast<int>(blockIdx.x), warp_row + r,
                          ranges[warp_row + r]);
      }
    }
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
