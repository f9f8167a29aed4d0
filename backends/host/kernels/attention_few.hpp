// SPDX-License-Identifier: Apache-2.0
/// \file
/// Attention of few rows: keys and values are taken as they lie, since packing would cost more than
/// it saves.
#pragma once

#include <backends/host/kernels/attention_fold.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

template <class T>
class few_rows_fold : attention_fold<T> {
  using base = attention_fold<T>;
  using base::add_existing_values;
  using base::block;
  using base::factors;
  using base::fold_scores;
  using base::given;
  using base::key;
  using base::lanes;
  using base::packed_q;
  using base::packed_v;
  using base::query;
  using base::scores;
  using base::value;
  using base::values_of;
  using base::weighted;
  using typename base::A;
  using typename base::V;

 public:
  explicit SOFTFOLD_INLINE few_rows_fold(const attention_rows& rows) : base(rows) {}
  SOFTFOLD_INLINE void run() { this->over_blocks(*this); }

 private:
  friend base;

  /// Element i of row r: packed_q[r padded + i], 0 past the last.
  void pack_queries() {
    const std::int64_t padded = attention_padded(given.dim);
    for (int r = 0; r < given.rows; ++r) {
      const T* const from = query(r);
      A* const to = packed_q + r * padded;
      for (int i = 0; i < given.dim; ++i) {
        to[i] = widened(from[i]);
      }
      for (std::int64_t i = given.dim; i < padded; ++i) {
        to[i] = A{0};
      }
    }
  }

  /// Bytes from a token of `row` elements to one that stands some pages after it: see
  /// prefetch_ahead.
  SOFTFOLD_INLINE static std::uintptr_t bytes_ahead(int row, std::int64_t stride) {
    constexpr std::uintptr_t wanted = 3 * 4096;
    const std::uintptr_t row_bytes = static_cast<std::uintptr_t>(row) * sizeof(T);
    return (wanted / row_bytes + 1) * static_cast<std::uintptr_t>(stride) * sizeof(T);
  }
  SOFTFOLD_INLINE static void ask_for(const T* p, std::uintptr_t ahead) {
    prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(p) + ahead));
  }
  static constexpr int line = 64 / static_cast<int>(sizeof(T));  ///< elements

  /// Scores of n rows from r on: each a sum over the lanes of its products.
  template <int n>
  SOFTFOLD_INLINE void score_few(int r, std::int64_t begin, int count) {
    const std::int64_t padded = attention_padded(given.dim);
    const A* const q = packed_q + r * padded;
    const V scale(static_cast<A>(given.scale));
    const V zero(A{0});
    const std::uintptr_t ahead = bytes_ahead(given.dim, given.k_stride);
    for (int j = 0; j < count; j += lanes) {
      alignas(64) A products[static_cast<unsigned>(n)][static_cast<unsigned>(lanes * lanes)];
      for (int l = 0; l < lanes; ++l) {
        V sums[static_cast<unsigned>(n)];
#pragma GCC unroll 3
        for (int row = 0; row < n; ++row) {
          sums[row] = zero;
        }
        const auto add = [&](int i, V right) {
#pragma GCC unroll 3
          for (int row = 0; row < n; ++row) {
            sums[row] = fma(V::load(q + row * padded + i), right, sums[row]);
          }
        };
        if (j + l < count) {
          const T* const from = key(begin + j + l);
          int i = 0;
          for (; i + line <= given.dim; i += line) {
            ask_for(from + i, ahead);
#pragma GCC unroll 4
            for (int part = 0; part < line; part += lanes) {
              add(i + part, V::load(from + i + part));
            }
          }
          for (; i < given.dim; i += lanes) {
            const int width = given.dim - i < lanes ? given.dim - i : lanes;
            add(i, V::load(from + i, width, zero));
          }
        }
#pragma GCC unroll 3
        for (int row = 0; row < n; ++row) {
          sums[row].store(products[row] + l * lanes);
        }
      }
      for (int row = 0; row < n; ++row) {
        V tile[static_cast<unsigned>(lanes)];
#pragma GCC unroll 16
        for (int l = 0; l < lanes; ++l) {
          tile[l] = V::load(products[row] + l * lanes);
        }
        transpose(tile);
#pragma GCC unroll 4
        for (int half = lanes / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
          for (int l = 0; l < half; ++l) {
            tile[l] = tile[l] + tile[l + half];
          }
        }
        (tile[0] * scale).store(scores + (r + row) * block + j);
      }
    }
  }

  /// Sums of n rows' values, of `vectors` columns from `column` on, the last with `width` elements,
  /// to packed_v, as the rows are in weighted.
  template <int n, int vectors>
  SOFTFOLD_INLINE void sum_few(int r, std::int64_t begin, int count, std::int64_t column,
                               int width = lanes) {
    V sums[static_cast<unsigned>(n)][static_cast<unsigned>(vectors)];
    clear(sums);
    const A* const e = scores + r * block;
    const std::uintptr_t ahead = bytes_ahead(given.v_dim, given.v_stride);
    for (int j = 0; j < count; ++j) {
      const T* const from = value(begin + j) + column;
#pragma GCC unroll 8
      for (int c = 0; c < vectors; ++c) {
        if (c * lanes % line == 0) {
          ask_for(from + c * lanes, ahead);
        }
        const V right = vectors > 1 || width == lanes ? V::load(from + c * lanes)
                                                      : V::load(from, width, V(A{0}));
#pragma GCC unroll 3
        for (int row = 0; row < n; ++row) {
          sums[row][c] = fma(V(e[row * block + j]), right, sums[row][c]);
        }
      }
    }
#pragma GCC unroll 3
    for (int row = 0; row < n; ++row) {
#pragma GCC unroll 8
      for (int c = 0; c < vectors; ++c) {
        sums[row][c].store(packed_v + (r + row) * given.weighted_stride + column + c * lanes);
      }
    }
  }

  template <int n>
  void fold_few_rows(int r, std::int64_t begin, int count) {
    score_few<n>(r, begin, count);
    for (int row = r; row < r + n; ++row) {
      factors[row] = fold_scores(row, begin, count);
    }
    constexpr int vectors = n == 1 ? 8 : 4;
    std::int64_t column = 0;
    for (; column + vectors * lanes <= given.v_dim; column += vectors * lanes) {
      sum_few<n, vectors>(r, begin, count, column);
    }
    for (; column < given.v_dim; column += lanes) {
      const std::int64_t left = given.v_dim - column;
      sum_few<n, 1>(r, begin, count, column, static_cast<int>(left < lanes ? left : lanes));
    }
    for (; column < given.weighted_stride; column += lanes) {
      for (int row = r; row < r + n; ++row) {
        V(A{0}).store(packed_v + row * given.weighted_stride + column);
      }
    }
  }

  void fold_block(std::int64_t begin, int count) {
    int r = 0;
    for (; given.rows - r > 4 || given.rows - r == 3; r += 3) {
      fold_few_rows<3>(r, begin, count);
    }
    for (; given.rows - r > 1; r += 2) {
      fold_few_rows<2>(r, begin, count);
    }
    if (r < given.rows) {
      fold_few_rows<1>(r, begin, count);
    }
    const V zero(A{0});
    V spoiled = zero;
    for (std::int64_t i = 0; i < given.rows * given.weighted_stride; i += lanes) {
      spoiled = fma(V::load(packed_v + i), zero, spoiled);
    }
    if (V::bits(unordered(spoiled, spoiled)) != 0) {
      // A key of exponential 0 may have a value that is not finite.
      add_existing_values(values_of(begin, count), count, 0, given.rows);
      return;
    }
    for (r = 0; r < given.rows; ++r) {
      const V factor(factors[r]);
      A* const to = weighted + r * given.weighted_stride;
      const A* const from = packed_v + r * given.weighted_stride;
      for (std::int64_t i = 0; i < given.weighted_stride; i += lanes) {
        fma(V::load(to + i), factor, V::load(from + i)).store(to + i);
      }
    }
  }
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
