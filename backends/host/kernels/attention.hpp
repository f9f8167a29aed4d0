// SPDX-License-Identifier: Apache-2.0
/// \file
/// Attention over a range of keys: a block of keys is transposed, so that the lanes of a product
/// are keys; the block's scores of all rows wait in the cache for their maxima; their exponentials
/// multiply the values, where lanes are columns. Up to few_rows rows take keys and values as they
/// lie. Among as many rows or fewer, and among more, a row's numbers are the same in any company:
/// its products are summed in one order, and blocks begin at multiples of their length.
#pragma once

#include <backends/host/kernels/elements.hpp>
#include <backends/host/kernels/exponentials.hpp>
#include <backends/host/kernels/lanes.hpp>

#include <core/softcap.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

SOFTFOLD_INLINE double widened(double x) { return x; }
SOFTFOLD_INLINE float widened(float x) { return x; }
SOFTFOLD_INLINE float widened(bf16_bits x) {
  return __builtin_bit_cast(float, std::uint32_t{x.bits} << 16);
}
SOFTFOLD_INLINE float widened(f16_bits x) {
  const std::uint32_t sign = (x.bits & 0x8000U) << 16;
  const std::uint32_t magnitude = x.bits & 0x7fffU;
  const float scaled = __builtin_bit_cast(float, magnitude << 13) * 0x1p112F;
  const std::uint32_t finite = __builtin_bit_cast(std::uint32_t, scaled);
  return __builtin_bit_cast(float,
                            sign | (magnitude >= 0x7c00U ? magnitude << 13 | 0x7f800000U : finite));
}

/// sums[r][c] += the sum over i < n of a[i a_step + r a_row] b[i b_step + c]: a tile of registers.
template <int rows, int vectors, class A>
SOFTFOLD_INLINE void multiply_tile(
    const A* a, std::int64_t a_step, std::int64_t a_row, const A* b, std::int64_t b_step,
    std::int64_t n, vec<A> (&sums)[static_cast<unsigned>(rows)][static_cast<unsigned>(vectors)]) {
  using V = vec<A>;
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
class attention_fold {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  static constexpr int lanes = V::lanes;
  static constexpr int most_vectors = sizeof(V) == 64 ? 4 : 2;
  static constexpr int tile_rows = 6;
  /// Keys whose transposed elements lie together.
  static constexpr int panel = most_vectors * lanes;
  static constexpr int block = attention_key_block;
  /// So few rows take keys and values as they lie: packing would cost more than it saves.
  static constexpr int few_rows = 8;
  static_assert(block % panel == 0);

 public:
  explicit SOFTFOLD_INLINE attention_fold(const attention_rows& given)
      : p_(given),
        q_(static_cast<A*>(given.scratch)),
        k_(q_ + attention_row_block * attention_padded(given.dim)),
        v_(k_ + block * attention_padded(given.dim)),
        scores_(v_ + block * attention_padded(given.v_dim)),
        factors_(scores_ + attention_row_block * block),
        max_(static_cast<A*>(given.max)),
        weighted_(static_cast<A*>(given.weighted)),
        exponential_(frame{}) {}

  SOFTFOLD_INLINE void run() {
    std::int64_t first = p_.end;
    std::int64_t last = p_.begin;
    for (int r = 0; r < p_.rows; ++r) {
      max_[r] = -infinity<A>;
      p_.sum[r] = 0;
      if (p_.first[r] < p_.last[r]) {
        first = p_.first[r] < first ? p_.first[r] : first;
        last = p_.last[r] > last ? p_.last[r] : last;
      }
    }
    const V zero(A{0});
    for (std::int64_t i = 0; i < p_.rows * p_.weighted_stride; i += lanes) {
      zero.store(weighted_ + i);
    }
    first = first < p_.begin ? p_.begin : first;
    last = last > p_.end ? p_.end : last;
    if (first >= last) {
      return;
    }
    is_few() ? pack_few_queries() : pack_queries();
    for (std::int64_t begin = first / block * block; begin < last; begin += block) {
      const std::int64_t left = p_.end - begin;
      fold_block(begin, static_cast<int>(left < block ? left : block));
    }
  }

 private:
  [[nodiscard]] SOFTFOLD_INLINE bool is_few() const { return p_.rows <= few_rows; }
  SOFTFOLD_INLINE const T* query(int r) const {
    return static_cast<const T*>(p_.q) + p_.q_offsets[r];
  }
  SOFTFOLD_INLINE const T* key(std::int64_t j) const {
    return static_cast<const T*>(p_.k) + j * p_.k_stride;
  }
  SOFTFOLD_INLINE const T* value(std::int64_t j) const {
    return static_cast<const T*>(p_.v) + j * p_.v_stride;
  }

  /// Calls body(constant<rows>, first row) for tiles of rows.
  template <int n>
  struct constant {
    static constexpr int value = n;
  };
  template <class Body>
  SOFTFOLD_INLINE static void over_tiles(int rows, const Body& body) {
    int r = 0;
    for (; r + tile_rows <= rows; r += tile_rows) {
      body(constant<tile_rows>(), r);
    }
    if (r + 3 <= rows) {
      body(constant<3>(), r);
      r += 3;
    }
    if (r + 2 <= rows) {
      body(constant<2>(), r);
      r += 2;
    }
    if (r < rows) {
      body(constant<1>(), r);
    }
  }

  /// Element i of row r of a tile that begins at row t: q_[t dim + i rows + r - t].
  void pack_queries() {
    over_tiles(p_.rows, [&](auto rows, int t) {
      A* const to = q_ + t * p_.dim;
      for (int r = 0; r < rows.value; ++r) {
        const T* const from = query(t + r);
        for (int i = 0; i < p_.dim; ++i) {
          to[i * rows.value + r] = widened(from[i]);
        }
      }
    });
  }

  /// Element i of row r: q_[r padded + i], 0 past the last.
  void pack_few_queries() {
    const std::int64_t padded = attention_padded(p_.dim);
    for (int r = 0; r < p_.rows; ++r) {
      const T* const from = query(r);
      A* const to = q_ + r * padded;
      for (int i = 0; i < p_.dim; ++i) {
        to[i] = widened(from[i]);
      }
      for (std::int64_t i = p_.dim; i < padded; ++i) {
        to[i] = A{0};
      }
    }
  }

  /// Element i of key j of the block: k_[(j / panel) dim panel + i panel + j mod panel]. Keys past
  /// `count` are 0.
  void pack_keys(std::int64_t begin, int count) {
    const V zero(A{0});
    for (int j = 0; j < count; j += lanes) {
      A* const to = k_ + (j / panel) * std::int64_t{p_.dim} * panel + j % panel;
      for (int i = 0; i < p_.dim; i += lanes) {
        const int here = p_.dim - i < lanes ? p_.dim - i : lanes;
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
      A* const to = k_ + (j / panel) * std::int64_t{p_.dim} * panel + j % panel;
      for (int i = 0; i < p_.dim; ++i) {
        zero.store(to + i * panel);
      }
    }
  }

  struct block_values {
    const A* data;
    std::int64_t stride;
    bool finite;
  };
  /// The block's values as numbers of the arithmetic, in place if they are such.
  block_values values_of(std::int64_t begin, int count) {
    const V zero(A{0});
    V spoiled = zero;  // NaN where one is not finite
    const std::int64_t padded = p_.weighted_stride;
    const bool packs = sizeof(T) != sizeof(A) || p_.v_dim % attention_padding != 0;
    for (int j = 0; j < count; ++j) {
      const T* const from = value(begin + j);
      A* const to = v_ + j * padded;
      int i = 0;
      for (; i + lanes <= p_.v_dim; i += lanes) {
        const V x = V::load(from + i);
        spoiled = fma(x, zero, spoiled);
        if (packs) {
          x.store(to + i);
        }
      }
      if (packs) {
        for (; i < padded; i += lanes) {
          const V x = i < p_.v_dim ? V::load(from + i, p_.v_dim - i, zero) : zero;
          spoiled = fma(x, zero, spoiled);
          x.store(to + i);
        }
      }
    }
    const bool finite = V::bits(unordered(spoiled, spoiled)) == 0;
    if constexpr (sizeof(T) == sizeof(A)) {
      if (!packs) {
        return {value(begin), p_.v_stride, finite};
      }
    }
    return {v_, padded, finite};
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
    const std::int64_t padded = attention_padded(p_.dim);
    const A* const q = q_ + r * padded;
    const V scale(static_cast<A>(p_.scale));
    const V zero(A{0});
    const std::uintptr_t ahead = bytes_ahead(p_.dim, p_.k_stride);
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
          for (; i + line <= p_.dim; i += line) {
            ask_for(from + i, ahead);
#pragma GCC unroll 4
            for (int part = 0; part < line; part += lanes) {
              add(i + part, V::load(from + i + part));
            }
          }
          for (; i < p_.dim; i += lanes) {
            const int width = p_.dim - i < lanes ? p_.dim - i : lanes;
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
        (tile[0] * scale).store(scores_ + (r + row) * block + j);
      }
    }
  }

  /// Sums of n rows' values, of `vectors` columns from `column` on, the last with `width` elements,
  /// to v_, as the rows are in weighted_.
  template <int n, int vectors>
  SOFTFOLD_INLINE void sum_few(int r, std::int64_t begin, int count, std::int64_t column,
                               int width = lanes) {
    V sums[static_cast<unsigned>(n)][static_cast<unsigned>(vectors)];
#pragma GCC unroll 3
    for (int row = 0; row < n; ++row) {
#pragma GCC unroll 8
      for (int c = 0; c < vectors; ++c) {
        sums[row][c] = V(A{0});
      }
    }
    const A* const e = scores_ + r * block;
    const std::uintptr_t ahead = bytes_ahead(p_.v_dim, p_.v_stride);
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
        sums[row][c].store(v_ + (r + row) * p_.weighted_stride + column + c * lanes);
      }
    }
  }

  template <int n>
  void fold_few_rows(int r, std::int64_t begin, int count) {
    score_few<n>(r, begin, count);
    for (int row = r; row < r + n; ++row) {
      factors_[row] = fold_scores(row, begin, count);
    }
    constexpr int vectors = n == 1 ? 8 : 4;
    std::int64_t column = 0;
    for (; column + vectors * lanes <= p_.v_dim; column += vectors * lanes) {
      sum_few<n, vectors>(r, begin, count, column);
    }
    for (; column < p_.v_dim; column += lanes) {
      const std::int64_t left = p_.v_dim - column;
      sum_few<n, 1>(r, begin, count, column, static_cast<int>(left < lanes ? left : lanes));
    }
    for (; column < p_.weighted_stride; column += lanes) {
      for (int row = r; row < r + n; ++row) {
        V(A{0}).store(v_ + row * p_.weighted_stride + column);
      }
    }
  }

  void fold_few(std::int64_t begin, int count) {
    int r = 0;
    for (; p_.rows - r > 4 || p_.rows - r == 3; r += 3) {
      fold_few_rows<3>(r, begin, count);
    }
    for (; p_.rows - r > 1; r += 2) {
      fold_few_rows<2>(r, begin, count);
    }
    if (r < p_.rows) {
      fold_few_rows<1>(r, begin, count);
    }
    const V zero(A{0});
    V spoiled = zero;
    for (std::int64_t i = 0; i < p_.rows * p_.weighted_stride; i += lanes) {
      spoiled = fma(V::load(v_ + i), zero, spoiled);
    }
    if (V::bits(unordered(spoiled, spoiled)) != 0) {
      // A key of exponential 0 may have a value that is not finite.
      add_existing_values(values_of(begin, count), count);
      return;
    }
    for (r = 0; r < p_.rows; ++r) {
      const V factor(factors_[r]);
      A* const to = weighted_ + r * p_.weighted_stride;
      const A* const from = v_ + r * p_.weighted_stride;
      for (std::int64_t i = 0; i < p_.weighted_stride; i += lanes) {
        fma(V::load(to + i), factor, V::load(from + i)).store(to + i);
      }
    }
  }

  void fold_block(std::int64_t begin, int count) {
    if (is_few()) {
      return fold_few(begin, count);
    }
    pack_keys(begin, count);
    const V scale(static_cast<A>(p_.scale));
    over_tiles(p_.rows, [&](auto rows, int t) {
      constexpr int n = decltype(rows)::value;
      for (int j = 0; j < count; j += panel) {
        V sums[static_cast<unsigned>(n)][static_cast<unsigned>(most_vectors)];
#pragma GCC unroll 6
        for (int r = 0; r < n; ++r) {
#pragma GCC unroll 4
          for (int c = 0; c < most_vectors; ++c) {
            sums[r][c] = V(A{0});
          }
        }
        multiply_tile<n, most_vectors, A>(q_ + t * p_.dim, n, 1,
                                          k_ + (j / panel) * std::int64_t{p_.dim} * panel, panel,
                                          p_.dim, sums);
#pragma GCC unroll 6
        for (int r = 0; r < n; ++r) {
#pragma GCC unroll 4
          for (int c = 0; c < most_vectors; ++c) {
            (sums[r][c] * scale).store(scores_ + (t + r) * block + j + c * lanes);
          }
        }
      }
    });
    for (int r = 0; r < p_.rows; ++r) {
      factors_[r] = fold_scores(r, begin, count);
    }
    const block_values v = values_of(begin, count);
    if (v.finite) {
      add_values(v, count);
    } else {
      add_existing_values(v, count);
    }
  }

  template <class B>
  SOFTFOLD_INLINE void add_bias(A* s, const void* bias, std::int64_t begin, int lo, int hi) {
    const B* const b = static_cast<const B*>(bias) + begin;
    for (int j = lo; j < hi; ++j) {
      const A add = static_cast<A>(widened(b[j]));
      s[j] = add == -infinity<A> ? add : s[j] + add;
    }
  }

  /// A row's products to exponentials; returns what its earlier sums are multiplied with.
  A fold_scores(int r, std::int64_t begin, int count) {
    A* const s = scores_ + r * block;
    const std::int64_t below = p_.first[r] - begin;
    const std::int64_t above = p_.last[r] - begin;
    const int lo = below <= 0 ? 0 : below < count ? static_cast<int>(below) : count;
    const int hi = above >= count ? count : above > lo ? static_cast<int>(above) : lo;
    const V none(-infinity<A>);
    const V zero(A{0});
    if (lo == hi) {
      for (int j = 0; j < block; j += lanes) {
        zero.store(s + j);
      }
      return A{1};
    }
    if (p_.softcap != 0) {
      const A cap = static_cast<A>(p_.softcap);
      for (int j = lo; j < hi; ++j) {
        s[j] = core::softcapped(s[j], cap);
      }
    }
    if (p_.bias != nullptr) {
      switch (p_.bias_type) {
        case input_f32:
          add_bias<float>(s, p_.bias[r], begin, lo, hi);
          break;
        case input_f64:
          add_bias<double>(s, p_.bias[r], begin, lo, hi);
          break;
        case input_f16:
          add_bias<f16_bits>(s, p_.bias[r], begin, lo, hi);
          break;
        default:
          add_bias<bf16_bits>(s, p_.bias[r], begin, lo, hi);
      }
    }
    if (p_.slope != nullptr) {
      const A slope = static_cast<A>(p_.slope[r]);
      for (int j = lo; j < hi; ++j) {
        const std::int64_t distance = p_.position[r] - begin - j;
        s[j] -= slope * static_cast<A>(distance < 0 ? -distance : distance);
      }
    }
    for (int j = 0; j < lo; ++j) {
      s[j] = -infinity<A>;
    }
    const int end = (hi + lanes - 1) / lanes * lanes;
    for (int j = hi; j < end; ++j) {
      s[j] = -infinity<A>;
    }
    V largest = none;
    for (int j = 0; j < end; j += lanes) {
      largest = max(largest, V::load(s + j));
    }
    // A NaN may hide in the maximum, and does not matter there: the sum becomes NaN.
    const A before = max_[r];
    const A here = largest.reduce_max();
    const A top = here > before ? here : before;
    max_[r] = top;
    if (top == infinity<A>) {
      for (int j = 0; j < end; ++j) {
        s[j] = s[j] != s[j] ? s[j] : s[j] == infinity<A> ? A{1} : A{0};
      }
    }
    const V reference(top == -infinity<A> ? A{0} : top);
    V sum = zero;
    for (int j = 0; j < end; j += lanes) {
      V e = V::load(s + j);
      if (top != infinity<A>) {
        e = exponential_.exp(e - reference);
        e.store(s + j);
      }
      sum = sum + e;
    }
    for (int j = end; j < block; j += lanes) {
      zero.store(s + j);
    }
    A factor(1);
    if (before != top) {
      factor = before == -infinity<A> ? A{0} : exponential_.exp(V(before - top)).first_lane();
    }
    p_.sum[r] = p_.sum[r] * static_cast<double>(factor) + static_cast<double>(sum.reduce_add());
    return factor;
  }

  template <int rows, int vectors>
  SOFTFOLD_INLINE void add_tile(const block_values& v, int count, int t, std::int64_t column) {
    V sums[static_cast<unsigned>(rows)][static_cast<unsigned>(vectors)];
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < vectors; ++c) {
        sums[r][c] = V(A{0});
      }
    }
    multiply_tile<rows, vectors, A>(scores_ + t * block, 1, block, v.data + column, v.stride, count,
                                    sums);
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) {
      A* const to = weighted_ + (t + r) * p_.weighted_stride + column;
      const V factor(factors_[t + r]);
#pragma GCC unroll 4
      for (int c = 0; c < vectors; ++c) {
        fma(V::load(to + c * lanes), factor, sums[r][c]).store(to + c * lanes);
      }
    }
  }

  void add_values(const block_values& v, int count) {
    over_tiles(p_.rows, [&](auto rows, int t) {
      constexpr int n = decltype(rows)::value;
      std::int64_t column = 0;
      for (; column + panel <= p_.weighted_stride; column += panel) {
        add_tile<n, most_vectors>(v, count, t, column);
      }
      for (; column < p_.weighted_stride; column += lanes) {
        add_tile<n, 1>(v, count, t, column);
      }
    });
  }

  /// The same, where values are not finite: keys of exponential 0 add nothing.
  void add_existing_values(const block_values& v, int count) {
    for (int r = 0; r < p_.rows; ++r) {
      const V factor(factors_[r]);
      for (std::int64_t column = 0; column < p_.weighted_stride; column += lanes) {
        V sum(A{0});
        for (int j = 0; j < count; ++j) {
          const A e = scores_[r * block + j];
          if (e != A{0}) {
            sum = fma(V(e), V::load(v.data + j * v.stride + column), sum);
          }
        }
        A* const to = weighted_ + r * p_.weighted_stride + column;
        fma(V::load(to), factor, sum).store(to);
      }
    }
  }

  const attention_rows& p_;
  A* q_;
  A* k_;
  A* v_;
  A* scores_;
  A* factors_;
  A* max_;
  A* weighted_;
  power_form<A, false> exponential_;
};

template <class T>
void attention_kernel(const attention_rows* rows) {
  attention_fold<T>(*rows).run();
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
