// SPDX-License-Identifier: Apache-2.0
/// \file
/// Attention of many rows of bf16 by AVX512_BF16's dot products: each lane adds the products of a
/// pair of bf16 to a sum in f32. Pairs are neighbours in a key's elements, and of one column's
/// values those of neighbouring keys; else the tiles are those of attention_tiles.hpp.
///
/// What the instruction would lose. It takes subnormal numbers for 0: scores of keys and rows that
/// have such elements are made of f32 products. It makes subnormal results 0: to scores that is
/// nothing, below a scale of most_scale; to the sums of values it is what is below 2^-126. Values
/// that would often come there, and those that are not finite, which exponentials of 0 must not
/// meet, are 0 in the pairs, and their products are added apart. So all of a row's numbers depend
/// on the keys that it has, and on no other row.
#pragma once

#include <backends/host/kernels/attention_fold.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// A lane is a pair of bf16, the first in its low bits.
struct pairs {
  __m512i v;

  static SOFTFOLD_INLINE pairs load(const std::uint32_t* p) { return {_mm512_loadu_si512(p)}; }
  static SOFTFOLD_INLINE pairs load(const bf16_bits* p, int elements) {
    return {_mm512_maskz_loadu_epi16(elements >= 32 ? ~0U : (1U << elements) - 1U, p)};
  }
  static SOFTFOLD_INLINE pairs all(std::uint32_t pair) {
    return {_mm512_set1_epi32(static_cast<int>(pair))};
  }
  SOFTFOLD_INLINE void store(std::uint32_t* p) const { _mm512_storeu_si512(p, v); }

  [[nodiscard]] SOFTFOLD_INLINE vec<float> first() const {
    return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
  }
  [[nodiscard]] SOFTFOLD_INLINE vec<float> second() const {
    return _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32(-0x10000)));
  }
  /// Bits of the elements that are subnormal.
  [[nodiscard]] SOFTFOLD_INLINE __mmask32 subnormal() const {
    return _mm512_mask_test_epi16_mask(_mm512_testn_epi16_mask(v, _mm512_set1_epi16(0x7f80)), v,
                                       _mm512_set1_epi16(0x007f));
  }
  /// Bits of the elements other than 0 below 2^-64, and of those that are not finite.
  [[nodiscard]] SOFTFOLD_INLINE __mmask32 extreme() const {
    constexpr std::int16_t least = (127 - 64) << 7;
    const __m512i magnitude = _mm512_and_si512(v, _mm512_set1_epi16(0x7fff));
    return _mm512_mask_cmpge_epu16_mask(_mm512_test_epi16_mask(magnitude, magnitude),
                                        _mm512_sub_epi16(magnitude, _mm512_set1_epi16(least)),
                                        _mm512_set1_epi16(0x7f80 - least));
  }
};

SOFTFOLD_INLINE vec<float> dot(pairs a, pairs b, vec<float> sum) {
  return _mm512_dpbf16_ps(sum.v, reinterpret_cast<__m512bh>(a.v), reinterpret_cast<__m512bh>(b.v));
}
SOFTFOLD_INLINE vec<float> exact_dot(pairs a, pairs b, vec<float> sum) {
  return fma(a.second(), b.second(), fma(a.first(), b.first(), sum));
}

class pairs_fold : attention_fold<bf16_bits> {
 public:
  /// Of |scale|: a score's products that are lost add up to less than dim 2^-124, times this
  /// nothing.
  static constexpr double most_scale = 0x1p64;

  explicit SOFTFOLD_INLINE pairs_fold(const attention_rows& rows)
      : attention_fold(rows),
        dim_pairs_((rows.dim + 1) / 2),
        q_stride_(attention_padded(dim_pairs_)),
        q_pairs_(reinterpret_cast<std::uint32_t*>(packed_q)),
        k_pairs_(reinterpret_cast<std::uint32_t*>(packed_k)),
        v_pairs_(reinterpret_cast<std::uint32_t*>(packed_v)) {}

  SOFTFOLD_INLINE void run() { over_blocks(*this); }

 private:
  friend attention_fold;

  /// Pair i of row r: q_pairs_[r q_stride_ + i].
  void pack_queries() {
    for (int r = 0; r < given.rows; ++r) {
      const bf16_bits* const from = query(r);
      __mmask32 subnormal = 0;
      for (int i = 0; i < dim_pairs_; i += lanes) {
        const pairs x = pairs::load(from + 2 * i, given.dim - 2 * i);
        subnormal |= x.subnormal();
        x.store(q_pairs_ + r * q_stride_ + i);
      }
      q_subnormal_[r] = subnormal != 0;
      any_q_subnormal_ = any_q_subnormal_ || subnormal != 0;
    }
  }

  /// Pair i of key j of the block: k_pairs_[(j / panel) dim_pairs_ panel + i panel + j mod panel].
  /// Keys past `count` are 0.
  void pack_keys(std::int64_t begin, int count) {
    any_k_subnormal_ = false;
    const int end = (count + panel - 1) / panel * panel;
    for (int j = 0; j < end; j += lanes) {
      std::uint32_t* const to =
          k_pairs_ + (j / panel) * std::int64_t{dim_pairs_} * panel + j % panel;
      __mmask32 subnormal = 0;
      for (int i = 0; i < dim_pairs_; i += lanes) {
        V tile[static_cast<unsigned>(lanes)];
#pragma GCC unroll 16
        for (int l = 0; l < lanes; ++l) {
          tile[l] = V(0.0F);
          if (j + l < count) {
            tile[l] =
                _mm512_castsi512_ps(pairs::load(key(begin + j + l) + 2 * i, given.dim - 2 * i).v);
          }
        }
        transpose(tile);
#pragma GCC unroll 16
        for (int l = 0; l < lanes; ++l) {
          if (i + l < dim_pairs_) {
            const pairs x{_mm512_castps_si512(tile[l].v)};
            subnormal |= x.subnormal();
            x.store(to + (i + l) * panel);
          }
        }
      }
      k_subnormal_[j / lanes] = lanes_of(subnormal);
      any_k_subnormal_ = any_k_subnormal_ || subnormal != 0;
    }
  }
  /// The lanes that have one of their elements' bits set.
  static SOFTFOLD_INLINE __mmask16 lanes_of(__mmask32 elements) {
    return elements == 0
               ? __mmask16{0}
               : _mm512_test_epi32_mask(_mm512_movm_epi16(elements), _mm512_movm_epi16(elements));
  }

  /// Column c of keys 2 j and 2 j + 1 of the block: v_pairs_[j weighted_stride + c], 0 past the
  /// last key and column and where it is extreme.
  void pack_values(std::int64_t begin, int count) {
    extremes_ = 0;
    for (int j = 0; j < count; j += 2) {
      const bf16_bits* const from = value(begin + j);
      const bf16_bits* const next = j + 1 < count ? value(begin + j + 1) : nullptr;
      std::uint32_t* const to = v_pairs_ + j / 2 * given.weighted_stride;
      __mmask32 all = 0;
      for (int c = 0; c < given.v_dim; c += lanes) {
        const int width = given.v_dim - c;
        const auto columns = [&](const bf16_bits* row) {
          return _mm512_cvtepu16_epi32(
              width >= lanes ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + c))
                             : _mm256_maskz_loadu_epi16(V::first(width), row + c));
        };
        pairs x{columns(from)};
        if (next != nullptr) {
          x.v = _mm512_or_si512(x.v, _mm512_slli_epi32(columns(next), 16));
        }
        const __mmask32 extreme = x.extreme();
        all |= extreme;
        pairs{_mm512_maskz_mov_epi16(~extreme, x.v)}.store(to + c);
      }
      if (all != 0) {
        if ((all & 0x55555555U) != 0) {
          extreme_keys_[extremes_++] = j;
        }
        if ((all & 0xaaaaaaaaU) != 0) {
          extreme_keys_[extremes_++] = j + 1;
        }
      }
    }
  }

  /// sums[r][c] = the sum over i < n of the products of pairs a[r a_row + i] and b[i b_step] of
  /// vector c.
  template <int rows, int vectors>
  static SOFTFOLD_INLINE void multiply_pairs(
      const std::uint32_t* a, std::int64_t a_row, const std::uint32_t* b, std::int64_t b_step,
      std::int64_t n, V (&sums)[static_cast<unsigned>(rows)][static_cast<unsigned>(vectors)]) {
    clear(sums);
    for (std::int64_t i = 0; i < n; ++i) {
      pairs right[static_cast<unsigned>(vectors)];
#pragma GCC unroll 4
      for (int c = 0; c < vectors; ++c) {
        right[c] = pairs::load(b + i * b_step + c * lanes);
      }
#pragma GCC unroll 6
      for (int r = 0; r < rows; ++r) {
        const pairs left = pairs::all(a[r * a_row + i]);
#pragma GCC unroll 4
        for (int c = 0; c < vectors; ++c) {
          sums[r][c] = dot(left, right[c], sums[r][c]);
        }
      }
    }
  }

  template <int rows>
  SOFTFOLD_INLINE void score_tile(int t, int j) {
    const V scale(static_cast<float>(given.scale));
    const std::uint32_t* const q = q_pairs_ + t * q_stride_;
    const std::uint32_t* const k = k_pairs_ + (j / panel) * std::int64_t{dim_pairs_} * panel;
    V sums[static_cast<unsigned>(rows)][static_cast<unsigned>(most_vectors)];
    multiply_pairs<rows, most_vectors>(q, q_stride_, k, panel, dim_pairs_, sums);
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < most_vectors; ++c) {
        (sums[r][c] * scale).store(scores + (t + r) * block + j + c * lanes);
      }
    }
  }

  /// Scores of what is subnormal, in place of the others.
  void score_subnormal(int count) {
    const V scale(static_cast<float>(given.scale));
    for (int j = 0; j < count; j += lanes) {
      const std::uint32_t* const k =
          k_pairs_ + (j / panel) * std::int64_t{dim_pairs_} * panel + j % panel;
      for (int r = 0; r < given.rows; ++r) {
        const __mmask16 these = q_subnormal_[r] ? __mmask16{0xffff} : k_subnormal_[j / lanes];
        if (these != 0) {
          V sum(0.0F);
          for (int i = 0; i < dim_pairs_; ++i) {
            sum =
                exact_dot(pairs::all(q_pairs_[r * q_stride_ + i]), pairs::load(k + i * panel), sum);
          }
          float* const to = scores + r * block + j;
          V::select(these, sum * scale, V::load(to)).store(to);
        }
      }
    }
  }

  void fold_block(std::int64_t begin, int count) {
    pack_keys(begin, count);
    over_tiles(given.rows, [&](auto rows, int t) {
      for (int j = 0; j < count; j += panel) {
        score_tile<decltype(rows)::value>(t, j);
      }
    });
    if (any_q_subnormal_ || any_k_subnormal_) {
      score_subnormal(count);
    }
    for (int r = 0; r < given.rows; ++r) {
      factors[r] = fold_scores(r, begin, count);
      round_exponentials(r);
    }
    pack_values(begin, count);
    over_tiles(given.rows, [&](auto rows, int t) {
      constexpr int n = decltype(rows)::value;
      std::int64_t column = 0;
      for (; column + panel <= given.weighted_stride; column += panel) {
        add_tile<n, most_vectors>(count, t, column);
      }
      for (; column < given.weighted_stride; column += lanes) {
        add_tile<n, 1>(count, t, column);
      }
    });
    if (extremes_ > 0) {
      add_extremes(begin);
    }
  }

  [[nodiscard]] SOFTFOLD_INLINE std::uint32_t* exponential_pairs(int r) const {
    return reinterpret_cast<std::uint32_t*>(scores + r * block);
  }
  /// A row's exponentials to pairs, in their place. The row's sum stays that of the unrounded ones:
  /// the bound of the logsumexp has no room for bf16, and of out's e = 2^-8 the rounding of the
  /// products takes 2^-9; that of the sum could take as much again, and their product a little more
  /// than there is.
  SOFTFOLD_INLINE void round_exponentials(int r) {
    const float* const from = scores + r * block;
    std::uint32_t* const to = exponential_pairs(r);
    for (int j = 0; j < block; j += 2 * lanes) {
      const __m512bh both = _mm512_cvtne2ps_pbh(V::load(from + j + lanes).v, V::load(from + j).v);
      pairs{reinterpret_cast<__m512i>(both)}.store(to + j / 2);
    }
  }

  template <int rows, int vectors>
  SOFTFOLD_INLINE void add_tile(int count, int t, std::int64_t column) {
    V sums[static_cast<unsigned>(rows)][static_cast<unsigned>(vectors)];
    multiply_pairs<rows, vectors>(exponential_pairs(t), block, v_pairs_ + column,
                                  given.weighted_stride, (count + 1) / 2, sums);
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) {
      float* const to = weighted + (t + r) * given.weighted_stride + column;
      const V factor(factors[t + r]);
#pragma GCC unroll 4
      for (int c = 0; c < vectors; ++c) {
        fma(V::load(to + c * lanes), factor, sums[r][c]).store(to + c * lanes);
      }
    }
  }

  /// The products of the values that are not in the pairs, for rows that have the key.
  void add_extremes(std::int64_t begin) {
    const V zero(0.0F);
    for (int r = 0; r < given.rows; ++r) {
      const auto* const e = reinterpret_cast<const bf16_bits*>(exponential_pairs(r));
      for (int c = 0; c < given.v_dim; c += lanes) {
        const int width = given.v_dim - c < lanes ? given.v_dim - c : lanes;
        float* const to = weighted + r * given.weighted_stride + c;
        V sum = zero;
        for (int x = 0; x < extremes_; ++x) {
          const int j = extreme_keys_[x];
          const float weight = widened(e[j]);
          if (weight != 0) {
            const V v = V::load(value(begin + j) + c, width, zero);
            const __mmask32 these = pairs{_mm512_castps_si512(v.v)}.extreme();
            sum = fma(V(weight), V::select(lanes_of(these), v, zero), sum);
          }
        }
        (V::load(to) + sum).store(to);
      }
    }
  }

  int dim_pairs_;
  std::int64_t q_stride_;
  std::uint32_t* q_pairs_;
  std::uint32_t* k_pairs_;
  std::uint32_t* v_pairs_;
  bool q_subnormal_[attention_row_block];
  __mmask16 k_subnormal_[block / lanes];
  bool any_q_subnormal_ = false;
  bool any_k_subnormal_ = false;
  int extremes_ = 0;
  int extreme_keys_[block];
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
