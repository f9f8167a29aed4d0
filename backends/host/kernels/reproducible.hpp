// SPDX-License-Identifier: Apache-2.0
/// \file
/// Softmax, log-softmax and logsumexp as core/reproducible.hpp has them: the fold of a part of a
/// row in one read, and the second look.
///
/// Eight vectors are a block. Its terms are relative to an anchor that is found with the first
/// block and rises when a later one outgrows it, and come together in packets by shuffles that
/// transpose: eight vectors become one of packets' sums. Such a sum is an integer times a power of
/// two; its digits are added to the word of its place.
#pragma once

#include <backends/host/kernels/elements.hpp>
#include <backends/host/kernels/fused.hpp>

#include <core/reproducible.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

namespace definition = core::reproducible;

/// What is of one arithmetic.
template <class A>
struct reproducible_limits;
template <>
struct reproducible_limits<float> {
  using bits = std::uint32_t;
  static constexpr int digits = 23;
  static constexpr int bias = 127;
  /// Terms are held raised by this, biased: the exponent of one at the anchor's place.
  static constexpr int raised = 192;
  /// What is so many powers below the anchor is of no account: it is 2^-24 of what is 2^-24 of what
  /// is 2^-24 of the lowest word's unit.
  static constexpr int depth = 190;
};
template <>
struct reproducible_limits<double> {
  using bits = std::uint64_t;
  static constexpr int digits = 52;
  static constexpr int bias = 1023;
  static constexpr int raised = 1024;
  static constexpr int depth = 320;
};

inline constexpr double ln2_of_limits = 0.6931471805599453;
/// No packet of terms up to this power reaches the place above the anchor's.
inline constexpr double highest_power = 28.4;

template <class A>
struct float_words;
template <>
struct float_words<float> {
  typedef std::uint32_t type __attribute__((vector_size(sizeof(vec<float>))));
};
template <>
struct float_words<double> {
  typedef std::uint64_t type __attribute__((vector_size(sizeof(vec<double>))));
};

/// 2^n for the n whose biased exponent stands in the low bits.
template <class A>
SOFTFOLD_INLINE vec<A> power_of_low_bits(vec<A> shifted) {
  using words = typename float_words<A>::type;
  vec<A> r;
  r.v = reinterpret_cast<decltype(r.v)>(reinterpret_cast<words>(shifted.v)
                                        << reproducible_limits<A>::digits);
  return r;
}

SOFTFOLD_INLINE vec<float> exponential_of_rest(vec<float> r) { return definition::polynomial(r); }
SOFTFOLD_INLINE vec<double> exponential_of_rest(vec<double> r) {
  using V = vec<double>;
  using constants = core::exponential<double>;
  constexpr int count = static_cast<int>(sizeof(constants::q) / sizeof(double));
  V q(constants::q[0]);
#pragma GCC unroll 16
  for (int i = 1; i < count; ++i) {
    q = fused(q, r, V(constants::q[i]));
  }
  return fused(fused(q, r, V(1.0)), r, V(1.0));
}

/// p 2^n of each element: n is less `base`, and no lower than `depth` below 0.
template <class A, bool scaled>
struct reproducible_terms {
  using V = vec<A>;
  V scale, lowest, magic;

  SOFTFOLD_INLINE reproducible_terms(A s, double base, int raised, int depth)
      : scale(s), lowest(A{0}), magic(A{0}) {
    const double least = (base - depth + 0.5) * ln2_of_limits;
    lowest = V(static_cast<A>(scaled ? least / static_cast<double>(s) : least));
    magic = V(static_cast<A>(static_cast<double>(definition::format<A>::magic) + raised - base));
  }

  /// The order of max's operands keeps a NaN.
  SOFTFOLD_INLINE V clamped(V x) const { return max(lowest, x); }

  /// Of a clamped one.
  SOFTFOLD_INLINE V operator()(V x) const {
    using constants = core::exponential<A>;
    const V z = scaled ? x * scale : x;
    const V shifted = fused(z, V(definition::format<A>::log2_e), magic);
    const V n = shifted - magic;
    V rest;
    if constexpr (sizeof(A) == 4) {
      rest = fused(n, V(-definition::format<A>::ln2), z);
    } else {
      rest = fused(n, V(-constants::ln2_high), z);
      rest = fused(n, V(-constants::ln2_low), rest);
    }
    if constexpr (scaled) {
      rest = rest + product_error(x, scale, z);
    }
    return exponential_of_rest(rest) * power_of_low_bits(shifted);
  }
};

/// Lanes of a, then of b, whose number lacks the bit `distance`, and those that have it; in an
/// order in which both agree and the rest of a packet's lanes stays together.
template <int lanes, int distance, class Native>
SOFTFOLD_INLINE void split_lanes(const Native& a, const Native& b, Native& low, Native& high) {
  constexpr int d = distance;
  if constexpr (lanes == 16 && d == 4) {
    low = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    high =
        __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  } else if constexpr (lanes == 16 && d == 2) {
    low = __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
    high =
        __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  } else if constexpr (lanes == 16) {
    low = __builtin_shufflevector(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30);
    high = __builtin_shufflevector(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
  } else if constexpr (lanes == 8 && d == 4) {
    low = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
    high = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  } else if constexpr (lanes == 8 && d == 2 && sizeof(Native) == 32) {  // within 16 bytes
    low = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
    high = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  } else if constexpr (lanes == 8 && d == 2) {
    low = __builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13);
    high = __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15);
  } else if constexpr (lanes == 8 && sizeof(Native) == 32) {
    low = __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14);
    high = __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
  } else if constexpr (lanes == 8) {
    low = __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14);
    high = __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
  } else if constexpr (lanes == 4 && d == 2) {
    low = __builtin_shufflevector(a, b, 0, 1, 4, 5);
    high = __builtin_shufflevector(a, b, 2, 3, 6, 7);
  } else if constexpr (lanes == 4 && sizeof(Native) == 16) {
    low = __builtin_shufflevector(a, b, 0, 2, 4, 6);
    high = __builtin_shufflevector(a, b, 1, 3, 5, 7);
  } else if constexpr (lanes == 4) {
    low = __builtin_shufflevector(a, b, 0, 4, 2, 6);
    high = __builtin_shufflevector(a, b, 1, 5, 3, 7);
  } else {
    static_assert(lanes == 2 && d == 1);
    low = __builtin_shufflevector(a, b, 0, 2);
    high = __builtin_shufflevector(a, b, 1, 3);
  }
}

/// Vectors of a block, or of as many columns of f64.
inline constexpr int block_vectors = 8;

/// What is `distance` apart comes together: half as many vectors are left.
template <int distance, int count, class V>
SOFTFOLD_INLINE void fold_distance(V (&v)[block_vectors]) {
  if constexpr (distance >= V::lanes) {  // in other vectors of the packet
    constexpr int apart = distance / V::lanes;
#pragma GCC unroll 8
    for (int i = 0, to = 0; i < count; i += 2 * apart) {
#pragma GCC unroll 8
      for (int j = i; j < i + apart; ++j, ++to) {
        v[to] = v[j] + v[j + apart];
      }
    }
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < count / 2; ++i) {
      V low, high;
      split_lanes<V::lanes, distance>(v[2 * i].v, v[2 * i + 1].v, low.v, high.v);
      v[i] = low + high;
    }
  }
}

/// The sums of a block's packets, in some order.
template <class V>
SOFTFOLD_INLINE V sums_of_packets(V (&v)[block_vectors]) {
  fold_distance<4, 8>(v);
  fold_distance<2, 4>(v);
  fold_distance<1, 2>(v);
  return v[0];
}

/// Sums of digits by place, from the anchor's down.
template <class A, class Keys>
class place_words;

template <class Keys>
class place_words<float, Keys> {
  using V = vec<float>;
  static constexpr int lanes = static_cast<int>(sizeof(Keys) / 8);

 public:
  /// False for a NaN.
  SOFTFOLD_INLINE bool add(V sums) {
    const Keys pair = reinterpret_cast<Keys>(sums.v);
    const Keys odd = pair >> 32;
    add_two(factors_of(pair), (pair & 0x7f800000U) >> 23);
    add_two(factors_of(odd), odd >> 23);
    const unsigned lower = V::bits(greater(V(0x1p33F), sums)) & V::bits(greater(sums, V(0x1p-32F)));
    if ((lower | V::bits(not_at_most(sums, V(0x1p97F)))) != 0) [[unlikely]] {
      return add_lower(sums);
    }
    return true;
  }
  /// Down by so many places.
  SOFTFOLD_INLINE void lower(int by) {
    words_[1] -= words_[0] << 32;
    for (int i = 3; i >= 0; --i) {
      words_[i] = i >= by ? words_[i - by] : Keys{};
    }
  }
  SOFTFOLD_INLINE void finish(reproducible_part& part) const {
    for (int i = 0; i < 4; ++i) {
      const Keys exact = i == 1 ? words_[1] - (words_[0] << 32) : words_[i];
      for (int lane = 0; lane < lanes; ++lane) {
        part.low[i] += exact[lane] & 0xffffffffU;
        part.high[i] += exact[lane] >> 32;
      }
    }
  }

 private:
  static SOFTFOLD_INLINE Keys factors_of(Keys k) { return (k & 0x7fffffU) | 0x800000U; }

  /// A shift by 64 or more gives 0. What is of place 0 gets into word 1, too, 32 bits further up
  /// and cut off: lower() and finish() take it out.
  SOFTFOLD_INLINE void add_two(Keys factors, Keys exponents) {
    words_[0] += shifted_left(factors, exponents - 192U);
    words_[1] += shifted_left(factors, exponents - 160U);
  }
  __attribute__((noinline)) bool add_lower(V sums) {
    alignas(64) float all[static_cast<unsigned>(V::lanes)];
    sums.store(all);
    for (int i = 0; i < V::lanes; ++i) {
      const auto bits = __builtin_bit_cast(std::uint32_t, all[i]);
      const std::uint32_t place = bits >> 28;
      if (place > 6) {
        return false;
      }
      if (place == 4 || place == 3) {
        words_[6 - place][i / 2] += std::uint64_t{(bits & 0x7fffffU) | 0x800000U}
                                    << (bits >> 23 & 31U);
      }
    }
    return true;
  }

  Keys words_[4] = {};
};

/// Where vectors have no shifts by different numbers.
template <>
class place_words<float, std::uint64_t> {
  using V = vec<float>;

 public:
  SOFTFOLD_INLINE bool add(V sums) {
    for (int i = 0; i < V::lanes; ++i) {
      const float one = sums.v[i];
      const auto bits = __builtin_bit_cast(std::uint32_t, one);
      const std::uint32_t place = bits >> 28;
      if (place > 6) {
        return false;
      }
      const std::uint64_t digits = std::uint64_t{(bits & 0x7fffffU) | 0x800000U}
                                   << (bits >> 23 & 31U);
      const std::uint32_t to = place < 3 ? 4 : 6 - place;
      low_[to] += digits & 0xffffffffU;
      high_[to] += digits >> 32;
    }
    return true;
  }
  SOFTFOLD_INLINE void lower(int by) {
    for (int i = 3; i >= 0; --i) {
      low_[i] = i >= by ? low_[i - by] : 0;
      high_[i] = i >= by ? high_[i - by] : 0;
    }
  }
  SOFTFOLD_INLINE void finish(reproducible_part& part) const {
    for (int i = 0; i < 4; ++i) {
      part.low[i] += low_[i];
      part.high[i] += high_[i];
    }
  }

 private:
  std::uint64_t low_[5] = {};  ///< the last one is of no account
  std::uint64_t high_[5] = {};
};

/// A sum has digits of three places, each below 2^32.
template <class Keys>
class place_words<double, Keys> {
  using V = vec<double>;

 public:
  SOFTFOLD_INLINE bool add(V sums) {
    alignas(64) double all[static_cast<unsigned>(V::lanes)];
    sums.store(all);
    std::uint64_t highest = 0;
#pragma GCC unroll 8
    for (int i = 0; i < V::lanes; ++i) {
      const auto bits = __builtin_bit_cast(std::uint64_t, all[i]);
      const std::uint64_t place = bits >> 57;
      highest = place > highest ? place : highest;
      const std::uint64_t down = 32 - place;
      const std::uint64_t to = down < 5 ? down : 5;  // more than 5 is of no account, NaN is found
      const std::uint64_t factor = (bits & 0xfffffffffffffU) | 0x10000000000000U;
      const auto shift = static_cast<int>(bits >> 52 & 31U);
      const std::uint64_t low = factor << (12 + shift);
      words_[to] += factor >> (52 - shift);
      words_[to + 1] += low >> 32;
      words_[to + 2] += low & 0xffffffffU;
    }
    return highest <= 32;
  }
  SOFTFOLD_INLINE void lower(int by) {
    for (int i = 4; i >= 0; --i) {
      words_[i] = i >= by ? words_[i - by] : 0;
    }
  }
  SOFTFOLD_INLINE void finish(reproducible_part& part) const {
    for (int i = 0; i < 5; ++i) {
      part.low[i] += words_[i];
    }
  }

 private:
  std::uint64_t words_[8] = {};
};

template <class T, bool scaled>
class reproducible_fold {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  using limits = reproducible_limits<A>;
  using terms = reproducible_terms<A, scaled>;
  static constexpr std::int64_t block_columns = block_vectors * V::lanes;

 public:
  explicit SOFTFOLD_INLINE reproducible_fold(A scale)
      : scale_(scale), of_(scale, 0, limits::raised, limits::depth), best_(-infinity<A>) {}

  /// False if the row needs the plain way.
  SOFTFOLD_INLINE bool take(const T* x, std::int64_t n, reproducible_part& part) {
    std::int64_t i = 0;
    for (; i + block_columns <= n; i += block_columns) {
      if (!take_block([x, i](int k) { return V::load(x + i + k * V::lanes); }, x + i))
          [[unlikely]] {
        return false;
      }
    }
    if (i < n) {
      const auto load = [x, i, n](int k) {
        const std::int64_t from = i + k * V::lanes;
        return n - from >= V::lanes ? V::load(x + from)
               : from < n           ? V::load(x + from, static_cast<int>(n - from), V(-infinity<A>))
                                    : V(-infinity<A>);
      };
      if (!take_block(load, x + i)) [[unlikely]] {
        return false;
      }
    }
    part = {};
    part.largest = static_cast<double>(best_.reduce_max());
    part.anchor = anchor_;
    words_.finish(part);
    return true;
  }

 private:
  template <class Load>
  SOFTFOLD_INLINE bool take_block(const Load& load, const T* ahead) {
    V v[block_vectors];
#pragma GCC unroll 8
    for (int k = 0; k < block_vectors; ++k) {
      if (k * V::lanes * static_cast<int>(sizeof(T)) % 64 == 0) {
        prefetch_ahead(ahead + k * V::lanes);
      }
      v[k] = load(k);
    }
    V most = max(max(max(v[0], v[1]), max(v[2], v[3])), max(max(v[4], v[5]), max(v[6], v[7])));
    if (V::bits(greater(most, limit_)) != 0) [[unlikely]] {
      if (!raise(most.reduce_max())) {
        return false;
      }
    }
    best_ = max(most, best_);
#pragma GCC unroll 8
    for (V& one : v) {
      one = of_(of_.clamped(one));
    }
    return words_.add(sums_of_packets(v));
  }

  /// The anchor for elements up to that one.
  __attribute__((noinline)) bool raise(A largest) {
    const A z = scaled ? largest * scale_ : largest;
    if (!(z < definition::far_from<A>)) {
      return false;
    }
    std::int32_t anchor = lowest_anchor;  // lower ones are of no account, unless the row is far
    if (z > -2 * definition::far_from<A>) {
      // The first whose limit is not below the largest element; which one shows in nothing.
      const double power = static_cast<double>(z) / ln2_of_limits;
      anchor = static_cast<std::int32_t>((power - highest_power) / 32 + 8192) - 8192;
      while (limit_of(anchor) < largest) {
        ++anchor;
      }
    }
    if (anchor_ == no_anchor) {
      anchor_ = anchor;
    }
    if (anchor > anchor_) {
      words_.lower(anchor - anchor_ < 5 ? anchor - anchor_ : 5);
      anchor_ = anchor;
    }
    limit_ = V(limit_of(anchor_));
    of_ = terms(scale_, 32.0 * anchor_, limits::raised, limits::depth);
    return true;
  }
  SOFTFOLD_INLINE A limit_of(std::int32_t anchor) const {
    const double z = (32.0 * anchor + highest_power) * ln2_of_limits;
    return static_cast<A>(scaled ? z / static_cast<double>(scale_) : z);
  }

  static constexpr std::int32_t no_anchor = -(1 << 20);
  /// That of -2^17.
  static constexpr std::int32_t lowest_anchor = -5910;

  A scale_;
  std::int32_t anchor_ = no_anchor;
  V limit_{-infinity<A>};
  terms of_;
  V best_;
  place_words<A, key_vector> words_;
};

template <class T>
bool reproducible_fold_kernel(const void* x, std::int64_t n, double scale,
                              reproducible_part* part) {
  using A = arithmetic_t<T>;
  const T* const in = static_cast<const T*>(x);
  return scale == 1 ? reproducible_fold<T, false>(A{1}).take(in, n, *part)
                    : reproducible_fold<T, true>(static_cast<A>(scale)).take(in, n, *part);
}

template <class T, class Out>
struct reproducible_output {
  using A = arithmetic_t<T>;
  using V = vec<A>;

  /// Powers below the largest element's from which on probabilities are 0.
  static constexpr int depth = sizeof(A) == 4 ? 165 : 1084;

  template <bool scaled>
  static SOFTFOLD_INLINE void softmax_of(const T* x, std::int64_t n, const reproducible_row& row,
                                         destination y) {
    const reproducible_terms<A, scaled> of(
        static_cast<A>(row.scale), row.n,
        reproducible_limits<A>::bias + definition::row_total<A>::spare_power, depth);
    const V high(static_cast<A>(row.high));
    const V low(static_cast<A>(row.low));
    map_elements(x, n, static_cast<Out*>(y.data), y.stream, [&](V v) {
      const V w = of(of.clamped(v));
      return fused(w, high, w * low);
    });
  }
  static void softmax(const void* x, std::int64_t n, const reproducible_row* row, destination y) {
    const T* const in = static_cast<const T*>(x);
    row->scale == 1 ? softmax_of<false>(in, n, *row, y) : softmax_of<true>(in, n, *row, y);
  }

  static void log_softmax(const void* x, std::int64_t n, const reproducible_row* row,
                          destination y) {
    const T* const in = static_cast<const T*>(x);
    Out* const out = static_cast<Out*>(y.data);
    const V scale(static_cast<A>(row->scale));
    const V high(static_cast<A>(row->log_high));
    const V low(static_cast<A>(row->log_low));
    if (row->scale == 1) {
      const V rest = V(A{0}) - low;
      map_elements(in, n, out, y.stream, [&](V v) { return (v - high) + rest; });
    } else {
      map_elements(in, n, out, y.stream, [&](V v) {
        const V z = v * scale;
        const V lost = V::select(greater(z, V(-infinity<A>)), product_error(v, scale, z), V(A{0}));
        return (z - high) + (lost - low);
      });
    }
  }
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
