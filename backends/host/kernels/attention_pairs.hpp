// SPDX-License-Identifier: Apache-2.0
/// \file
/// Attention of many rows of bf16 by AVX512_BF16's dot products: each lane adds the products of a
/// pair of bf16 to a sum in f32.
#pragma once

#include <backends/host/kernels/pairs_avx512.hpp>

#include <backends/host/kernels/attention_packing.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

SOFTFOLD_INLINE vec<float> dot(pairs a, pairs b, vec<float> sum) {
  return _mm512_dpbf16_ps(sum.v, reinterpret_cast<__m512bh>(a.v), reinterpret_cast<__m512bh>(b.v));
}

class pairs_fold : attention_packing<attention_key_block> {
 public:
  using attention_packing::most_scale;

  explicit SOFTFOLD_INLINE pairs_fold(const attention_rows& rows)
      : attention_packing(rows, panel, false) {}

  SOFTFOLD_INLINE void run() { over_blocks(*this); }

 private:
  friend attention_fold;

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
    V sums[static_cast<unsigned>(rows)][static_cast<unsigned>(most_vectors)];
    multiply_pairs<rows, most_vectors>(q_pairs + t * q_stride, q_stride, key_at(j), panel,
                                       key_pairs, sums);
    float* const to = scores_of(t) + j;
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < most_vectors; ++c) {
        (sums[r][c] * scale).store(to + r * block + c * lanes);
      }
    }
  }

  void fold_block(std::int64_t begin, int count) {
    pack_keys(begin, 0, (count + panel - 1) / panel * panel, count);
    pack_values(begin, 0, count, count,
                [&](int j, int c) { return v_pairs + j * given.weighted_stride + c; });
    over_row_blocks(begin, count,
                    [&](int first, int last) { fold_rows(begin, count, first, last); });
  }

  void fold_rows(std::int64_t begin, int count, int first, int last) {
    over_tiles(first, last, [&](auto rows, int t) {
      for (int j = 0; j < count; j += panel) {
        score_tile<decltype(rows)::value>(t, j);
      }
    });
    score_subnormal(scores_of(first), first, last, 0, count, block,
                    V(static_cast<float>(given.scale)));
    for (int r = first; r < last; ++r) {
      factors[r] = fold_scores(r, begin, count);
      round_exponentials(r);
    }
    over_tiles(first, last, [&](auto rows, int t) {
      constexpr int n = decltype(rows)::value;
      std::int64_t column = 0;
      for (; column + panel <= given.weighted_stride; column += panel) {
        add_tile<n, most_vectors>(count, t, column);
      }
      for (; column < given.weighted_stride; column += lanes) {
        add_tile<n, 1>(count, t, column);
      }
    });
    add_extremes(exponential_pairs(first), first, last, 0, count, begin, block);
  }

  [[nodiscard]] SOFTFOLD_INLINE std::uint32_t* exponential_pairs(int r) const {
    return reinterpret_cast<std::uint32_t*>(scores_of(r));
  }
  /// A row's exponentials to pairs, in their place. The row's sum stays that of the unrounded ones:
  /// the bound of the logsumexp has no room for bf16, and of out's e = 2^-8 the rounding of the
  /// products takes 2^-9; that of the sum could take as much again, and their product a little more
  /// than there is.
  SOFTFOLD_INLINE void round_exponentials(int r) {
    const float* const from = scores_of(r);
    std::uint32_t* const to = exponential_pairs(r);
    for (int j = 0; j < block; j += 2 * lanes) {
      pairs::rounded(V::load(from + j), V::load(from + j + lanes)).store(to + j / 2);
    }
  }

  template <int rows, int vectors>
  SOFTFOLD_INLINE void add_tile(int count, int t, std::int64_t column) {
    V sums[static_cast<unsigned>(rows)][static_cast<unsigned>(vectors)];
    multiply_pairs<rows, vectors>(exponential_pairs(t), block, v_pairs + column,
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
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
