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

/// What a row's weights are relative to, as a power of two's exponent less weight_exponent: its
/// largest score's, rounded, so that a weight's exponent takes one instruction. What that loses,
/// weights have alike. Rows where it is much, whose anchor leaves `most`, are not for this, and
/// that the weight of a single key is 1 has to be said.
template <class In>
struct rounded_anchor {
  static constexpr auto raised = static_cast<float>(weight_exponent<In>);
  static constexpr float most = 0x1p22F;
  /// Not below this, so that there are differences to -infinity's.
  static constexpr float least = -0x1p30F;

  __device__ static float of(float max, float unit_2) {
    return fmaxf(fmaf(max, unit_2, -raised), least);
  }
  /// What sums of weights are multiplied with to be relative to the score itself.
  __device__ static float correction(float max, float unit_2) {
    return fast_exp2(raised - fmaf(max, unit_2, -of(max, unit_2)));
  }
};

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

/// Of four lanes each has word l of the others, l its number: those of lane 0 first.
__device__ inline void transpose_words(std::uint32_t (&words)[4]) {
  const auto lane = threadIdx.x;
#pragma unroll
  for (int distance = 2; distance > 0; distance /= 2) {
    const bool is_upper = (lane & static_cast<unsigned>(distance)) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & distance) == 0) {
        const std::uint32_t other =
            shuffle_xor(is_upper ? words[i] : words[i + distance], distance);
        words[i] = is_upper ? other : words[i];
        words[i + distance] = is_upper ? words[i + distance] : other;
      }
    }
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
/// next. `rounds`: weights are relative to a rounded_anchor.
template <class In, int groups, int columns, bool rounds = false>
struct warp_states {
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
        const float anchor = rounds                    ? rounded_anchor<In>::of(top, unit_2)
                             : top == -infinity<float> ? 0.0F
                                                       : top;
        factor[g][h] = before == top ? 1.0F
                       : rounds      ? fast_exp2(rounded_anchor<In>::of(before, unit_2) - anchor)
                                     : fast_exp2((before - anchor) * unit_2);
        max[g][h] = top;
        float totals[2] = {0, 0};
#pragma unroll
        for (int c = 0; c < key_columns; ++c) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& own = s[g][c][2 * h + i];
            own = rounds ? fast_exp2(fmaf(own, unit_2, -anchor))
                         : weight_of<In>(own - anchor, unit_2);
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
                        const attention_way& way, const attention_block& block,
                        const key_range& chunk, int rows_of_block, int warp_row,
                        unsigned careful = 0) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    careful |= shuffle_xor(careful, 1);
    careful |= shuffle_xor(careful, 2);
    const bool is_part = parts.chunks > 1;
    tensor_ref to = p.out;
    if (is_part) {
      to.data = parts.weighted;
      to.type = dtype_of<A>;
    }
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      // Each lane finishes one of the two rows that it has with three others.
      const int own_h = lane % 2;
      double wholes[2];
      int are_wrong[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        wholes[h] = sum[g][h].whole();
        wholes[h] += shuffle_xor(wholes[h], 1);
        wholes[h] += shuffle_xor(wholes[h], 2);
        bool is_wrong = false;
#pragma unroll
        for (int c = 0; c < columns; ++c) {
#pragma unroll
          for (int i = 2 * h; i < 2 * h + 2; ++i) {
            const A from = is_exact ? o[g][c][i] : A{0};  // infinite sums of bf16 are right
            is_wrong = is_wrong || o[g][c][i] - from != o[g][c][i] - from;
          }
        }
        are_wrong[h] = static_cast<int>(is_wrong);
        are_wrong[h] |= shuffle_xor(are_wrong[h], 1);
        are_wrong[h] |= shuffle_xor(are_wrong[h], 2);
      }
      const std::int64_t own_number = block.first_row + warp_row + 16 * g + 8 * own_h + lane / 4;
      const bool exists = own_number < block.all_rows;
      const std::int64_t number = exists ? own_number : block.all_rows - 1;
      const A own_max = own_h == 0 ? max[g][0] : max[g][1];
      const A top = is_exact ? own_max : own_max * static_cast<A>(way.unit);
      A factor = weight_unit<In>;
      double whole = own_h == 0 ? wholes[0] : wholes[1];
      bool is_special = top == infinity<A> || (top == -infinity<A> && own_max != top);
      if constexpr (rounds) {
        const key_range keys =
            way.unmasked ? chunk : key_range::of(block.row<A>(p, number), chunk.first, chunk.end);
        const bool is_near =
            fabsf(rounded_anchor<In>::of(own_max, way.unit_2)) < rounded_anchor<In>::most;
        is_special = own_max != -infinity<A> && !is_near;
        if (keys.end - keys.first == 1) {  // weighs 1, and the product had it so as a rule
          constexpr auto one = static_cast<float>(1 << weight_exponent<In>);
          is_special = is_special || widen(In(static_cast<float>(whole))) != one;
          whole = one;
        } else if (is_near) {
          factor *= rounded_anchor<In>::correction(own_max, way.unit_2);
        }
      }
      whole *= static_cast<double>(factor);
      const bool by_key =
          exists && ((careful >> (2 * g + own_h) & 1U) != 0 || is_special ||
                     (whole == whole && (own_h == 0 ? are_wrong[0] : are_wrong[1]) != 0));
      const unsigned of_own = (by_key ? 1U : 0U) << (2 * g + own_h);
      careful &= ~(3U << 2 * g);
      careful |= of_own | shuffle_xor(of_own, 1);
      const bool writes = exists && !by_key;
      const auto finish =
          row_finish::of(p, parts, block, number, top, whole, factor, writes && lane % 4 < 2);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        write_row(to, finish.of_lane(lane - own_h + h), g, h,
                  shuffle(static_cast<int>(writes), lane - own_h + h) != 0,
                  way.writes_pieces && !is_part, static_cast<int>(p.v.dim));
      }
    }
    if (ballot(careful != 0) == 0) {
      return;
    }
#pragma unroll 1
    for (int r = 0; r < 16 * groups; ++r) {
      const unsigned mine = careful >> (r / 8) & (r % 8 == lane / 4 ? 1U : 0U);
      if (ballot(mine != 0) != 0) {
        attend_by_key<In>(p, parts, rows_of_block, block.number, warp_row + r, chunk);
      }
    }
  }

 private:
  /// What a row's weighted sums become, which times `factor` are what they mean, and where.
  struct row_finish {
    std::int64_t to;
    attention_output<A> output;

    __device__ static row_finish of(const core::attention_problem& p,
                                    const attention_parts<A>& parts, const attention_block& block,
                                    std::int64_t number, A top, double whole, A factor,
                                    bool writes_state) {
      const core::attention_sequence& in = block.in;
      if (parts.chunks > 1) {
        const std::int64_t place = block.place(p, number);
        if (writes_state) {
          parts.states[place] = {static_cast<double>(top), whole};
        }
        return {place * p.v.dim, {true, factor, A{0}}};
      }
      const auto at = head_and_token::of(p, block.key_head, number);
      const std::int64_t token = in.first_query + at.token;
      const auto result =
          core::attention_finish<A>::of(p, at.head, core::public_state(top, static_cast<A>(whole)));
      if (writes_state) {
        core::write_attention_state(p, in.batch, at.head, token, result.both.whole);
      }
      auto output = attention_output<A>::of(p, result);
      output.factor *= factor;
      return {core::offset_of(p.out, in.batch, at.head, token), output};
    }
    [[nodiscard]] __device__ row_finish of_lane(int lane) const {
      return {shuffle(to, lane),
              {shuffle(static_cast<int>(output.is_product), lane) != 0,
               shuffle(output.factor, lane), shuffle(output.value, lane)}};
    }
  };

  /// Row h of a lane's two.
  __device__ void write_row(const tensor_ref& to, const row_finish& finish, int g, int h,
                            bool writes, bool in_pieces, int v_dim) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if constexpr (sizeof(In) == 2 && columns % 4 == 0) {
      constexpr float least = 0x1p-126F;
      const bool is_plain = finish.output.is_product && fabsf(finish.output.factor) >= least &&
                            fabsf(finish.output.factor) < infinity<float>;
      if (in_pieces && ballot(writes && !is_plain) == 0) {  // o is no NaN: then rows are careful
        In* const row = static_cast<In*>(to.data) + finish.to;
#pragma unroll
        for (int c = 0; c < columns; c += 4) {
          std::uint32_t words[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const A first = o[g][c + i][2 * h] * finish.output.factor;
            const A second = o[g][c + i][2 * h + 1] * finish.output.factor;
            words[i] = std::is_same_v<In, half> ? to_half_pair(first, second)
                                                : to_bfloat16_pair(first, second);
          }
          transpose_words(words);
          const int column = 8 * (c + lane % 4);
          if (writes && column < v_dim) {
            *reinterpret_cast<uint4*>(row + column) =
                make_uint4(words[0], words[1], words[2], words[3]);
          }
        }
        return;
      }
    }
    if (writes) {
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        store_columns<In>(to, finish.to, 8 * c + lane % 4 * 2, v_dim, finish.output(o[g][c][2 * h]),
                          finish.output(o[g][c][2 * h + 1]));
      }
    }
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
