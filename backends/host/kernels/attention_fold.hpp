// SPDX-License-Identifier: Apache-2.0
/// \file
/// What all ways of attention over a range of keys share: the rows' states, the blocks of keys, and
/// what scores become. Among as many rows or fewer, and among more, a row's numbers are the same in
/// any company: its products are summed in one order, and blocks begin at multiples of their
/// length.
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

/// A tile of sums, in registers once this and what adds to it are in one function.
template <class A, std::size_t rows, std::size_t vectors>
SOFTFOLD_INLINE void clear(vec<A> (&sums)[rows][vectors]) {
#pragma GCC unroll 6
  for (std::size_t r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (std::size_t c = 0; c < vectors; ++c) {
      sums[r][c] = vec<A>(A{0});
    }
  }
}

/// `key_block`: keys of a block.
template <class T, int key_block = attention_key_block>
class attention_fold {
 protected:
  using A = arithmetic_t<T>;
  using V = vec<A>;
  static constexpr int lanes = V::lanes;
  static constexpr int most_vectors = sizeof(V) == 64 ? 4 : 2;
  static constexpr int tile_rows = 6;
  /// Keys whose transposed elements lie together.
  static constexpr int panel = most_vectors * lanes;
  static constexpr int block = key_block;
  static_assert(block % panel == 0);

  explicit SOFTFOLD_INLINE attention_fold(const attention_rows& rows)
      : given(rows),
        packed_q(static_cast<A*>(rows.scratch)),
        packed_k(packed_q + padded_rows(rows) * attention_padded(rows.dim)),
        packed_v(packed_k + block * attention_padded(rows.dim)),
        scores(packed_v + block * attention_padded(rows.v_dim)),
        factors(scores + attention_row_block * block),
        maxima(static_cast<A*>(rows.max)),
        weighted(static_cast<A*>(rows.weighted)),
        exponential(frame{}) {}

  static constexpr std::int64_t padded_rows(const attention_rows& rows) {
    return (rows.rows + attention_row_block - 1) / attention_row_block * attention_row_block;
  }

  /// Calls way.pack_queries(), then way.fold_block(begin, count) for each block of keys that a row
  /// may have.
  template <class Way>
  SOFTFOLD_INLINE void over_blocks(Way& way) {
    std::int64_t first = given.end;
    std::int64_t last = given.begin;
    for (int r = 0; r < given.rows; ++r) {
      maxima[r] = -infinity<A>;
      given.sum[r] = 0;
      if (given.first[r] < given.last[r]) {
        first = given.first[r] < first ? given.first[r] : first;
        last = given.last[r] > last ? given.last[r] : last;
      }
    }
    const V zero(A{0});
    for (std::int64_t i = 0; i < given.rows * given.weighted_stride; i += lanes) {
      zero.store(weighted + i);
    }
    first = first < given.begin ? given.begin : first;
    last = last > given.end ? given.end : last;
    if (first >= last) {
      return;
    }
    way.pack_queries();
    for (std::int64_t begin = first / block * block; begin < last; begin += block) {
      const std::int64_t left = given.end - begin;
      way.fold_block(begin, static_cast<int>(left < block ? left : block));
    }
  }

  SOFTFOLD_INLINE const T* query(int r) const {
    return static_cast<const T*>(given.q) + given.q_offsets[r];
  }
  SOFTFOLD_INLINE const T* key(std::int64_t j) const {
    return static_cast<const T*>(given.k) + j * given.k_stride;
  }
  SOFTFOLD_INLINE const T* value(std::int64_t j) const {
    return static_cast<const T*>(given.v) + j * given.v_stride;
  }

  /// Calls body(constant<rows>, first row) for tiles of rows.
  template <int n>
  struct constant {
    static constexpr int value = n;
  };
  template <class Body>
  SOFTFOLD_INLINE static void over_tiles(int first, int last, const Body& body) {
    int r = first;
    for (; r + tile_rows <= last; r += tile_rows) {
      body(constant<tile_rows>(), r);
    }
    if (r + 3 <= last) {
      body(constant<3>(), r);
      r += 3;
    }
    if (r + 2 <= last) {
      body(constant<2>(), r);
      r += 2;
    }
    if (r < last) {
      body(constant<1>(), r);
    }
  }
  /// Calls body(first, last) for the rows of each row block that has some of a block's keys. Their
  /// scores are in the cache at the same time.
  template <class Body>
  SOFTFOLD_INLINE void over_row_blocks(std::int64_t begin, int count, const Body& body) const {
    static_assert(attention_row_block % tile_rows == 0);
    for (int first = 0; first < given.rows; first += attention_row_block) {
      const int past = first + attention_row_block;
      const int last = past < given.rows ? past : given.rows;
      bool has_keys = false;
      for (int r = first; r < last; ++r) {
        has_keys = has_keys || (given.first[r] < begin + count && given.last[r] > begin &&
                                given.first[r] < given.last[r]);
      }
      if (has_keys) {
        body(first, last);
      }
    }
  }
  [[nodiscard]] SOFTFOLD_INLINE A* scores_of(int r) const {
    return scores + r % attention_row_block * block;
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
    const std::int64_t padded = given.weighted_stride;
    const bool packs = sizeof(T) != sizeof(A) || given.v_dim % attention_padding != 0;
    for (int j = 0; j < count; ++j) {
      const T* const from = value(begin + j);
      A* const to = packed_v + j * padded;
      int i = 0;
      for (; i + lanes <= given.v_dim; i += lanes) {
        const V x = V::load(from + i);
        spoiled = fma(x, zero, spoiled);
        if (packs) {
          x.store(to + i);
        }
      }
      if (packs) {
        for (; i < padded; i += lanes) {
          const V x = i < given.v_dim ? V::load(from + i, given.v_dim - i, zero) : zero;
          spoiled = fma(x, zero, spoiled);
          x.store(to + i);
        }
      }
    }
    const bool finite = V::bits(unordered(spoiled, spoiled)) == 0;
    if constexpr (sizeof(T) == sizeof(A)) {
      if (!packs) {
        return {value(begin), given.v_stride, finite};
      }
    }
    return {packed_v, padded, finite};
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
    A* const s = scores_of(r);
    const std::int64_t below = given.first[r] - begin;
    const std::int64_t above = given.last[r] - begin;
    const int lo = below <= 0 ? 0 : below < count ? static_cast<int>(below) : count;
    const int hi = above >= count ? count : above > lo ? static_cast<int>(above) : lo;
    if (lo == hi) {
      for (int j = 0; j < block; j += lanes) {
        V(A{0}).store(s + j);
      }
      return A{1};
    }
    edit_scores(s, r, begin, lo, hi);
    return fold_edited(s, r, lo, hi);
  }
  [[nodiscard]] SOFTFOLD_INLINE bool edits_scores() const {
    return given.softcap != 0 || given.bias != nullptr || given.slope != nullptr;
  }
  /// Scores [lo, hi) of a row, in place.
  void edit_scores(A* s, int r, std::int64_t begin, int lo, int hi) {
    if (given.softcap != 0) {
      const A cap = static_cast<A>(given.softcap);
      for (int j = lo; j < hi; ++j) {
        s[j] = core::softcapped(s[j], cap);
      }
    }
    if (given.bias != nullptr) {
      switch (given.bias_type) {
        case input_f32:
          add_bias<float>(s, given.bias[r], begin, lo, hi);
          break;
        case input_f64:
          add_bias<double>(s, given.bias[r], begin, lo, hi);
          break;
        case input_f16:
          add_bias<f16_bits>(s, given.bias[r], begin, lo, hi);
          break;
        default:
          add_bias<bf16_bits>(s, given.bias[r], begin, lo, hi);
      }
    }
    if (given.slope != nullptr) {
      const A slope = static_cast<A>(given.slope[r]);
      for (int j = lo; j < hi; ++j) {
        const std::int64_t distance = given.position[r] - begin - j;
        s[j] -= slope * static_cast<A>(distance < 0 ? -distance : distance);
      }
    }
  }
  /// A row's scores [lo, hi) to exponentials; 0 in the rest of the block.
  A fold_edited(A* s, int r, int lo, int hi) {
    const V none(-infinity<A>);
    const V zero(A{0});
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
    const A before = maxima[r];
    const A here = largest.reduce_max();
    const A top = here > before ? here : before;
    maxima[r] = top;
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
        e = exponential.exp(e - reference);
        e.store(s + j);
      }
      sum = sum + e;
    }
    for (int j = end; j < block; j += lanes) {
      zero.store(s + j);
    }
    A factor(1);
    if (before != top) {
      factor = before == -infinity<A> ? A{0} : exponential.exp(V(before - top)).first_lane();
    }
    given.sum[r] =
        given.sum[r] * static_cast<double>(factor) + static_cast<double>(sum.reduce_add());
    return factor;
  }

  /// Adds exponentials times values where some are not finite: keys of exponential 0 add nothing.
  void add_existing_values(const block_values& v, int count, int first, int last) {
    for (int r = first; r < last; ++r) {
      const V factor(factors[r]);
      for (std::int64_t column = 0; column < given.weighted_stride; column += lanes) {
        V sum(A{0});
        for (int j = 0; j < count; ++j) {
          const A e = scores_of(r)[j];
          if (e != A{0}) {
            sum = fma(V(e), V::load(v.data + j * v.stride + column), sum);
          }
        }
        A* const to = weighted + r * given.weighted_stride + column;
        fma(V::load(to), factor, sum).store(to);
      }
    }
  }

  const attention_rows& given;
  A* packed_q;
  A* packed_k;
  A* packed_v;
  A* scores;
  A* factors;
  A* maxima;
  A* weighted;
  power_form<A, false> exponential;
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
