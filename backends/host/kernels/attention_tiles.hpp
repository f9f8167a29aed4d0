// SPDX-License-Identifier: Apache-2.0
/// \file
/// Attention of many rows: a block of keys is transposed, so that the lanes of a product are keys;
/// the block's scores of a row block wait in the cache for their maxima; their exponentials
/// multiply the values, where lanes are columns.
#pragma once

#include <backends/host/kernels/attention_fold.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// sums[r][c] = the sum over i < n of a[i a_step + r a_row] b[i b_step + c]: a tile of registers.
template <int rows, int vectors, class A>
SOFTFOLD_INLINE void multiply_tile(
    const A* a, std::int64_t a_step, std::int64_t a_row, const A* b, std::int64_t b_step,
    std::int64_t n, vec<A> (&sums)[static_cast<unsigned>(rows)][static_cast<unsigned>(vectors)]) {
  using V = vec<A>;
  clear(sums);
  for (std::int64_t i = 0; i < n; ++i) {
    V right[static_cast<unsigned>(vectors)];
#pragma GCC unroll 4
    for (int c = 0; c < vectors; ++c) {
      right[c] = V::load(b + i * b_step + c * V::lanes);
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) {
      const V left(a[i * a_step + r * a_row]);
#pragma GCC unroll 4
      for (int c = 0; c < vectors; ++c) {
        sums[r][c] = fma(left, right[c], sums[r][c]);
      }
    }
  }
}

template <class T>
class tiles_fold : attention_fold<T> {
  using base = attention_fold<T>;
  using base::add_existing_values;
  using base::block;
  using base::factors;
  using base::fold_scores;
  using base::given;
  using base::key;
  using base::lanes;
  using base::most_vectors;
  using base::over_row_blocks;
  using base::over_tiles;
  using base::packed_k;
  using base::packed_q;
  using base::panel;
  using base::query;
  using base::scores_of;
  using base::values_of;
  using base::weighted;
  using typename base::A;
  using typename base::block_values;
  using typename base::V;

 public:
  explicit SOFTFOLD_INLINE tiles_fold(const attention_rows& rows) : base(rows) {}
  SOFTFOLD_INLINE void run() { this->over_blocks(*this); }

 private:
  friend base;

  /// Element i of row r of a tile that begins at row t: packed_q[t dim + i rows + r - t].
  void pack_queries() {
    over_tiles(0, given.rows, [&](auto rows, int t) {
      A* const to = packed_q + t * given.dim;
      for (int r = 0; r < rows.value; ++r) {
        const T* const from = query(t + r);
        for (int i = 0; i < given.dim; ++i) {
          to[i * rows.value + r] = widened(from[i]);
        }
      }
    });
  }

  /// Element i of key j of the block: packed_k[(j / panel) dim panel + i panel + j mod panel]. Keys
  /// past `count` are 0.
  void pack_keys(std::int64_t begin, int count) {
    const V zero(A{0});
    for (int j = 0; j < count; j += lanes) {
      A* const to = packed_k + (j / panel) * std::int64_t{given.dim} * panel + j % panel;
      for (int i = 0; i < given.dim; i += lanes) {
        const int here = given.dim - i < lanes ? given.dim - i : lanes;
        V tile[static_cast<unsigned>(lanes)];
#pragma GCC unroll 16
        for (int l = 0; l < lanes; ++l) {
          tile[l] = j + l >= count  ? zero
                    : here == lanes ? V::load(key(begin + j + l) + i)
                                    : V::load(key(begin + j + l) + i, here, zero);
        }
        transpose(tile);
#pragma GCC unroll 16
        for (int l = 0; l < lanes; ++l) {
          if (l < here) {
            tile[l].store(to + (i + l) * panel);
          }
        }
      }
    }
    // What the last panel has beyond.
    const int used = (count + lanes - 1) / lanes * lanes;
    const int end = (count + panel - 1) / panel * panel;
    for (int j = used; j < end; j += lanes) {
      A* const to = packed_k + (j / panel) * std::int64_t{given.dim} * panel + j % panel;
      for (int i = 0; i < given.dim; ++i) {
        zero.store(to + i * panel);
      }
    }
  }

  void fold_block(std::int64_t begin, int count) {
    pack_keys(begin, count);
    const block_values v = values_of(begin, count);
    over_row_blocks(begin, count, [&](int first, int last) {
      score(count, first, last);
      for (int r = first; r < last; ++r) {
        factors[r] = fold_scores(r, begin, count);
      }
      if (v.finite) {
        add_values(v, count, first, last);
      } else {
        add_existing_values(v, count, first, last);
      }
    });
  }

  void score(int count, int first, int last) {
    const V scale(static_cast<A>(given.scale));
    over_tiles(first, last, [&](auto rows, int t) {
      constexpr int n = decltype(rows)::value;
      for (int j = 0; j < count; j += panel) {
        V sums[static_cast<unsigned>(n)][static_cast<unsigned>(most_vectors)];
        multiply_tile<n, most_vectors, A>(packed_q + t * given.dim, n, 1,
                                          packed_k + (j / panel) * std::int64_t{given.dim} * panel,
                                          panel, given.dim, sums);
        A* const to = scores_of(t) + j;
#pragma GCC unroll 6
        for (int r = 0; r < n; ++r) {
#pragma GCC unroll 4
          for (int c = 0; c < most_vectors; ++c) {
            (sums[r][c] * scale).store(to + r * block + c * lanes);
          }
        }
      }
    });
  }

  template <int rows, int vectors>
  SOFTFOLD_INLINE void add_tile(const block_values& v, int count, int t, std::int64_t column) {
    V sums[static_cast<unsigned>(rows)][static_cast<unsigned>(vectors)];
    multiply_tile<rows, vectors, A>(scores_of(t), 1, block, v.data + column, v.stride, count, sums);
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) {
      A* const to = weighted + (t + r) * given.weighted_stride + column;
      const V factor(factors[t + r]);
#pragma GCC unroll 4
      for (int c = 0; c < vectors; ++c) {
        fma(V::load(to + c * lanes), factor, sums[r][c]).store(to + c * lanes);
      }
    }
  }

  void add_values(const block_values& v, int count, int first, int last) {
    over_tiles(first, last, [&](auto rows, int t) {
      constexpr int n = decltype(rows)::value;
      std::int64_t column = 0;
      for (; column + panel <= given.weighted_stride; column += panel) {
        add_tile<n, most_vectors>(v, count, t, column);
      }
      for (; column < given.weighted_stride; column += lanes) {
        add_tile<n, 1>(v, count, t, column);
      }
    });
  }
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
