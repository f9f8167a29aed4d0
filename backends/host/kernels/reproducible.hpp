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
#include <backends/host/kernels/fold.hpp>
#include <backends/host/kernels/fused.hpp>

#include <core/exact_state.hpp>
#include <core/reproducible.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

namespace definition = core::reproducible;

/// What is so many powers below the anchor is of no account: each of three levels of additions
/// loses as many powers as a fraction has, below the lowest word's unit.
template <class A>
inline constexpr int depth_of_terms = sizeof(A) == 4 ? 190 : 320;
/// The biased exponent of a held term at the anchor's place.
template <class A>
inline constexpr int held_exponent = definition::bias_of<A> + definition::format<A>::raised;

inline constexpr double ln2_of_limits = 0.6931471805599453;
/// No packet of terms up to this power reaches the place above the anchor's.
inline constexpr double highest_power = 28.4;

/// The highest element that has room at an anchor.
template <class A, bool scaled>
SOFTFOLD_INLINE A highest_element(std::int32_t anchor, A scale) {
  const double z = (32.0 * anchor + highest_power) * ln2_of_limits;
  return static_cast<A>(scaled ? z / static_cast<double>(scale) : z);
}

template <class A>
struct float_words {
  typedef typename definition::format<A>::bits type __attribute__((vector_size(sizeof(vec<A>))));
};

/// 2^n for the n whose biased exponent stands in the low bits.
template <class A>
SOFTFOLD_INLINE vec<A> power_of_low_bits(vec<A> shifted) {
  using words = typename float_words<A>::type;
  vec<A> r;
  r.v = reinterpret_cast<decltype(r.v)>(reinterpret_cast<words>(shifted.v)
                                        << definition::format<A>::digits);
  return r;
}

/// The polynomial of a term, from its highest coefficient down.
template <class A>
struct term_polynomial;
template <>
struct term_polynomial<float> : definition::format<float> {};
template <>
struct term_polynomial<double> {
  using constants = core::exponential<double>;
  static constexpr double q[] = {constants::q[0],
                                 constants::q[1],
                                 constants::q[2],
                                 constants::q[3],
                                 constants::q[4],
                                 constants::q[5],
                                 constants::q[6],
                                 constants::q[7],
                                 constants::q[8],
                                 constants::q[9],
                                 1.0,
                                 1.0};
};

/// exp(r) of `count` vectors, step by step of all: so many chains at once are as many as the
/// processor has the latency for, and more than it finds by itself.
template <unsigned count, class A>
SOFTFOLD_INLINE void exponentials_of_rests(const vec<A> (&r)[count], vec<A> (&p)[count]) {
  using V = vec<A>;
  constexpr auto& q = term_polynomial<A>::q;
#pragma GCC unroll 8
  for (V& one : p) {
    one = V(q[0]);
  }
#pragma GCC unroll 16
  for (int i = 1; i < static_cast<int>(sizeof(q) / sizeof(A)); ++i) {
#pragma GCC unroll 8
    for (unsigned k = 0; k < count; ++k) {
      p[k] = fused(p[k], r[k], V(q[i]));
    }
  }
}
template <class A>
SOFTFOLD_INLINE vec<A> exponential_of_rest(vec<A> r) {
  const vec<A> rests[1] = {r};
  vec<A> p[1];
  exponentials_of_rests(rests, p);
  return p[0];
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

  /// Clamped ones become terms.
  template <unsigned count>
  SOFTFOLD_INLINE void replace(V (&x)[count]) const {
    using constants = core::exponential<A>;
    V z[count], shifted[count], rest[count], p[count];
#pragma GCC unroll 8
    for (unsigned k = 0; k < count; ++k) {
      z[k] = scaled ? x[k] * scale : x[k];
    }
#pragma GCC unroll 8
    for (unsigned k = 0; k < count; ++k) {
      shifted[k] = fused(z[k], V(definition::format<A>::log2_e), magic);
    }
#pragma GCC unroll 8
    for (unsigned k = 0; k < count; ++k) {
      const V n = shifted[k] - magic;
      if constexpr (sizeof(A) == 4) {
        rest[k] = fused(n, V(-definition::format<A>::ln2), z[k]);
      } else {
        rest[k] = fused(n, V(-constants::ln2_high), z[k]);
        rest[k] = fused(n, V(-constants::ln2_low), rest[k]);
      }
      if constexpr (scaled) {
        rest[k] = rest[k] + product_error(x[k], scale, z[k]);
      }
    }
    exponentials_of_rests(rest, p);
#pragma GCC unroll 8
    for (unsigned k = 0; k < count; ++k) {
      x[k] = p[k] * power_of_low_bits(shifted[k]);
    }
  }
  SOFTFOLD_INLINE V operator()(V x) const {
    V one[1] = {x};
    replace(one);
    return one[0];
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

/// What the sums of packets that are held relative to an anchor add to the words of its place and
/// of those below. False if there is a NaN.
template <class Keys, class V>
struct place_words;

/// The digits of f32 sums, of two in each key, that a word of the place ending at `upper_end` and
/// the word below it have. A shift by 64 or more gives 0. A number of the place above gets into a
/// place's word, too, 32 bits further up and cut off: that is taken out in the end.
template <class Keys>
SOFTFOLD_INLINE void add_digits_of(vec<float> sums, Keys upper_end, Keys& upper, Keys& lower) {
  const Keys lower_end = upper_end - 32U;
  const Keys both = reinterpret_cast<Keys>(sums.v);
  const Keys even = (both & 0x7fffffU) | 0x800000U;
  const Keys odd = ((both >> 32) & 0x7fffffU) | 0x800000U;
  const Keys even_power = (both & 0x7f800000U) >> 23;
  const Keys odd_power = both >> 55;
  upper += shifted_left(even, even_power - upper_end);
  upper += shifted_left(odd, odd_power - upper_end);
  lower += shifted_left(even, even_power - lower_end);
  lower += shifted_left(odd, odd_power - lower_end);
}

/// In each lane's 32 bits the anchor's place is 6, as `held >> 28` tells; below 3 is no account.
template <class Keys>
struct place_words<Keys, vec<float>> {
  using V = vec<float>;
  using words = float_words<float>::type;
  static constexpr int lanes = static_cast<int>(sizeof(Keys) / 8);

  static SOFTFOLD_INLINE bool add(const V* sums, int count, reproducible_part& part) {
    Keys above{};
    words highest{};
    words lowest = ~words{};
    for (int place = 6; place >= 4; place -= 2) {
      Keys upper{};
      Keys lower{};
      const Keys upper_end = Keys{} + 32U * static_cast<unsigned>(place);
      for (int i = 0; i < count; ++i) {
        add_digits_of(sums[i], upper_end, upper, lower);
        const words bits = reinterpret_cast<words>(sums[i].v);
        const words from_lower = bits - 0x30000000U;
        highest = bits > highest ? bits : highest;
        lowest = from_lower < lowest ? from_lower : lowest;
      }
      upper -= above << 32;
      lower -= upper << 32;
      above = lower;
      part.low[6 - place] = sum_of_lanes(upper & 0xffffffffU);
      part.high[6 - place] = sum_of_lanes(upper >> 32);
      part.low[7 - place] = sum_of_lanes(lower & 0xffffffffU);
      part.high[7 - place] = sum_of_lanes(lower >> 32);
      if (largest_of(highest) >= 0x70000000U) {  // of a NaN, whatever its sign
        return false;
      }
      if (~largest_of(~lowest) >= 0x20000000U) [[likely]] {  // nothing of places 4 and 3
        break;
      }
    }
    return true;
  }

 private:
  template <int flip = lanes / 2>
  static SOFTFOLD_INLINE std::uint64_t sum_of_lanes(Keys k) {
    if constexpr (flip == 0) {
      return k[0];
    } else {
      Keys other;
      exchange_lanes<lanes, flip>(k, other);
      return sum_of_lanes<flip / 2>(k + other);
    }
  }
  template <int flip = V::lanes / 2>
  static SOFTFOLD_INLINE std::uint32_t largest_of(words w) {
    if constexpr (flip == 0) {
      return w[0];
    } else {
      words other;
      exchange_lanes<V::lanes, flip>(w, other);
      return largest_of<flip / 2>(w > other ? w : other);
    }
  }
};

/// The anchor's place is 32. A sum has digits of three places, each below 2^32.
template <class Keys>
struct place_words<Keys, vec<double>> {
  static constexpr int lanes = static_cast<int>(sizeof(Keys) / 8);

  static SOFTFOLD_INLINE bool add(const vec<double>* sums, int count, reproducible_part& part) {
    Keys highest{};
    Keys all[5] = {};
    for (int i = 0; i < count; ++i) {
      const Keys bits = reinterpret_cast<Keys>(sums[i].v);
      const Keys factor = (bits & 0xfffffffffffffU) | 0x10000000000000U;
      const Keys power = bits >> 52;
      highest = bits > highest ? bits : highest;
#pragma GCC unroll 5
      for (int w = 0; w < 5; ++w) {
        const Keys up = power - (1024U + 52U - 32U * static_cast<unsigned>(w));
        all[w] += (shifted_left(factor, up) | shifted_right(factor, Keys{} - up)) & 0xffffffffU;
      }
    }
    bool ordinary = true;
    for (int lane = 0; lane < lanes; ++lane) {
      ordinary = ordinary && highest[lane] >> 57 <= 32;
      for (int w = 0; w < 5; ++w) {
        part.low[w] += all[w][lane];
      }
    }
    return ordinary;
  }
};

/// Where vectors have no shifts by different numbers.
SOFTFOLD_INLINE bool add_digits(float sum, reproducible_part& part) {
  const auto bits = __builtin_bit_cast(std::uint32_t, sum);
  const std::uint32_t place = bits >> 28;
  if (place <= 6 && place >= 3) {
    const std::uint64_t digits = std::uint64_t{(bits & 0x7fffffU) | 0x800000U}
                                 << (bits >> 23 & 31U);
    part.low[6 - place] += digits & 0xffffffffU;
    part.high[6 - place] += digits >> 32;
  }
  return place <= 6;
}
SOFTFOLD_INLINE bool add_digits(double sum, reproducible_part& part) {
  const auto bits = __builtin_bit_cast(std::uint64_t, sum);
  const std::uint64_t place = bits >> 57;
  const std::uint64_t factor = (bits & 0xfffffffffffffU) | 0x10000000000000U;
  const auto shift = static_cast<int>(bits >> 52 & 31U);
  const std::uint64_t low = factor << (12 + shift);
  const std::uint64_t digits[] = {factor >> (52 - shift), low >> 32, low & 0xffffffffU};
  for (std::uint64_t i = 0; i < 3; ++i) {
    if (place <= 32 && 32 - place + i < 5) {
      part.low[32 - place + i] += digits[i];
    }
  }
  return place <= 32;
}
template <class A>
struct place_words_by_one {
  static SOFTFOLD_INLINE bool add(const vec<A>* sums, int count, reproducible_part& part) {
    bool ordinary = true;
    for (int i = 0; i < count; ++i) {
      for (int lane = 0; lane < vec<A>::lanes; ++lane) {
        const A one = sums[i].v[lane];
        ordinary = add_digits(one, part) && ordinary;
      }
    }
    return ordinary;
  }
};

template <>
struct place_words<std::uint64_t, vec<float>> : place_words_by_one<float> {};
template <>
struct place_words<std::uint64_t, vec<double>> : place_words_by_one<double> {};

/// A part's words as the definition has them.
template <class A>
SOFTFOLD_INLINE definition::exact_sum<A> sum_of_part(const reproducible_part& part) {
  constexpr int most = definition::exact_sum<A>::words_of + 1;
  definition::exact_sum<A> sum;
  int first = 0;
  while (first < most && part.low[first] == 0 && part.high[first] == 0) {
    ++first;
  }
  if (first == most) {
    return sum;
  }
  sum.top = part.anchor - first;
  for (int i = first; i < first + most - 1 && i < most; ++i) {
    const std::uint64_t upper = part.high[i] << 32;
    const std::uint64_t low = upper + part.low[i];
    sum.words[i - first] = {low, (part.high[i] >> 32) + (low < upper ? 1 : 0)};
  }
  return sum;
}

/// Of all of a row's parts, at least one; the largest of their elements goes to `largest`.
template <class A>
SOFTFOLD_INLINE definition::exact_sum<A> sum_of_parts(const reproducible_part* parts,
                                                      std::int64_t count, A& largest) {
  double most = parts->largest;
  definition::exact_sum<A> sum = sum_of_part<A>(*parts);
  for (std::int64_t i = 1; i < count; ++i) {
    most = parts[i].largest > most ? parts[i].largest : most;
    sum.add(sum_of_part<A>(parts[i]));
  }
  largest = static_cast<A>(most);
  return sum;
}

/// Here, where the processor's instructions are known: a baseline's fma are calls.
template <class A>
void reproducible_total(const reproducible_part* parts, std::int64_t count, double scale,
                        void* total) {
  A largest;
  const definition::exact_sum<A> sum = sum_of_parts(parts, count, largest);
  *static_cast<definition::row_total<A>*>(total) =
      definition::row_total<A>::of(static_cast<A>(scale), largest, sum);
}
template <class A>
void reproducible_state(const reproducible_part* parts, std::int64_t count, double scale,
                        void* state) {
  A largest;
  const definition::exact_sum<A> sum = sum_of_parts(parts, count, largest);
  *static_cast<exact_max_sum<A>*>(state) =
      definition::state_of(static_cast<A>(scale), largest, sum);
}

template <class T, bool scaled, bool keep>
class reproducible_fold {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  using terms = reproducible_terms<A, scaled>;
  static constexpr std::int64_t block_columns = block_vectors * V::lanes;

 public:
  SOFTFOLD_INLINE reproducible_fold(A scale, A* kept)
      : scale_(scale),
        of_(scale, 0, held_exponent<A>, depth_of_terms<A>),
        best_(-infinity<A>),
        kept_(kept) {}

  /// False if the row needs the plain way. beside(i, terms) is called for each vector before its
  /// terms are kept.
  template <class Beside>
  SOFTFOLD_INLINE bool take(const T* x, std::int64_t n, const Beside& beside,
                            reproducible_part& part) {
    std::int64_t i = 0;
    for (; i + block_columns <= n; i += block_columns) {
      const auto load = [x, i](int k) { return V::load(x + i + k * V::lanes); };
      if (!take_block(load, x, i, block_columns, beside)) [[unlikely]] {
        beside.finish(i);
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
      if (!take_block(load, x, i, n - i, beside)) [[unlikely]] {
        beside.finish(i);
        return false;
      }
    }
    beside.finish((n + V::lanes - 1) / V::lanes * V::lanes);
    part = {};
    part.largest = static_cast<double>(best_.reduce_max());
    part.anchor = anchor_;
    part.one_anchor = one_anchor_;
    return place_words<key_vector, V>::add(sums_, blocks_, part);
  }

 private:
  template <class Load, class Beside>
  SOFTFOLD_INLINE bool take_block(const Load& load, const T* x, std::int64_t begin,
                                  std::int64_t count, const Beside& beside) {
    V v[block_vectors];
#pragma GCC unroll 8
    for (int k = 0; k < block_vectors; ++k) {
      if (k * V::lanes * static_cast<int>(sizeof(T)) % 64 == 0) {
        prefetch_ahead(x + begin + k * V::lanes);
      }
      v[k] = load(k);
    }
    const V most =
        max(max(max(v[0], v[1]), max(v[2], v[3])), max(max(v[4], v[5]), max(v[6], v[7])));
    if (V::bits(greater(most, limit_)) != 0) [[unlikely]] {
      if (anchor_ == no_anchor && are_near_zero(most)) {
        anchor_ = 0;
        limit_ = V(limit_of(0));
      } else if (!raise(most.reduce_max())) {
        return false;
      }
    }
    best_ = max(most, best_);
    // Half of the block at a time: with all of it the registers would not do.
    V half[2][block_vectors / 2];
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
#pragma GCC unroll 4
      for (int k = 0; k < block_vectors / 2; ++k) {
        half[h][k] = of_.clamped(v[h * block_vectors / 2 + k]);
      }
      of_.replace(half[h]);
#pragma GCC unroll 4
      for (int k = 0; k < block_vectors / 2; ++k) {
        const int number = h * block_vectors / 2 + k;
        v[number] = half[h][k];
        if constexpr (keep) {
          const std::int64_t at = number * V::lanes;
          if (count - at >= V::lanes) [[likely]] {
            beside(begin + at, v[number]);
            v[number].store(kept_ + begin + at);
          } else if (count > at) {
            beside(begin + at, v[number]);
            v[number].store(kept_ + begin + at, static_cast<int>(count - at));
          }
        }
      }
    }
    sums_[blocks_] = sums_of_packets(v);
    ++blocks_;
    return true;
  }

  /// Whether the anchor is 0, which the terms begin with: of most rows.
  SOFTFOLD_INLINE bool are_near_zero(V most) const {
    return V::bits(greater(most, V(limit_of(0)))) == 0 &&
           V::bits(greater(most, V(limit_of(-1)))) != 0;
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
      // Exact, but for what becomes too small to count.
      const double less = power_of_two(-32.0 * (anchor - anchor_));
      const V factor(static_cast<A>(less < 0x1p-126 ? 0 : less));
      for (int i = 0; i < blocks_; ++i) {
        sums_[i] = sums_[i] * factor;
      }
      anchor_ = anchor;
      one_anchor_ = false;
    }
    limit_ = V(limit_of(anchor_));
    of_ = terms(scale_, 32.0 * anchor_, held_exponent<A>, depth_of_terms<A>);
    return true;
  }
  SOFTFOLD_INLINE A limit_of(std::int32_t anchor) const {
    return highest_element<A, scaled>(anchor, scale_);
  }

  static constexpr std::int32_t no_anchor = -(1 << 20);
  /// That of -2^17.
  static constexpr std::int32_t lowest_anchor = -5910;

  A scale_;
  std::int32_t anchor_ = no_anchor;
  V limit_{-infinity<A>};
  terms of_;
  V best_;
  A* kept_;
  bool one_anchor_ = true;
  int blocks_ = 0;
  V sums_[static_cast<unsigned>((segment_columns + block_columns - 1) / block_columns)];
};

/// Whether a term as the fold holds it tells each probability that is not 0. One of f64 does not
/// reach down so far.
template <class A>
inline constexpr bool keeps_terms = sizeof(A) == 4;

template <class T, bool keep, class Beside>
SOFTFOLD_INLINE bool fold_reproducibly(const void* x, std::int64_t n, double scale, void* kept,
                                       const Beside& beside, reproducible_part* part) {
  using A = arithmetic_t<T>;
  const T* const in = static_cast<const T*>(x);
  A* const to = static_cast<A*>(kept);
  if (scale == 1) {
    return reproducible_fold<T, false, keep>(A{1}, to).take(in, n, beside, *part);
  }
  return reproducible_fold<T, true, keep>(static_cast<A>(scale), to).take(in, n, beside, *part);
}

template <class T>
bool reproducible_fold_kernel(const void* x, std::int64_t n, double scale, void* kept,
                              reproducible_part* part) {
  if constexpr (keeps_terms<arithmetic_t<T>>) {
    if (kept != nullptr) {
      return fold_reproducibly<T, true>(x, n, scale, kept, nothing_beside{}, part);
    }
  }
  return fold_reproducibly<T, false>(x, n, scale, nullptr, nothing_beside{}, part);
}

/// Probabilities of kept terms. The first product is exact, or what it is rounded from is far too
/// low to be more than 0.
template <class A>
struct probability_of_term {
  vec<A> power, high, low;

  explicit SOFTFOLD_INLINE probability_of_term(const reproducible_scaling& s)
      : power(static_cast<A>(s.power)), high(static_cast<A>(s.high)), low(static_cast<A>(s.low)) {}
  SOFTFOLD_INLINE vec<A> operator()(vec<A> term) const {
    const vec<A> w = term * power;
    return fused(w, high, w * low);
  }
};

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
        definition::bias_of<A> + definition::row_total<A>::spare_power, depth);
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

  static void scaled(const void* terms, std::int64_t n, const reproducible_scaling* scaling,
                     destination y) {
    const probability_of_term<A> of(*scaling);
    map_elements(static_cast<const A*>(terms), n, static_cast<Out*>(y.data), y.stream, of);
  }

  static bool fold_and_stream([[maybe_unused]] const void* x, [[maybe_unused]] std::int64_t n,
                              [[maybe_unused]] double scale, [[maybe_unused]] void* kept,
                              [[maybe_unused]] reproducible_part* part,
                              [[maybe_unused]] const void* terms,
                              [[maybe_unused]] const reproducible_scaling* scaling,
                              [[maybe_unused]] void* y) {
    if constexpr (keeps_terms<A>) {
      const scaling_beside<T, Out, probability_of_term<A>> other(
          static_cast<const T*>(x), static_cast<const A*>(terms), n, static_cast<Out*>(y),
          probability_of_term<A>(*scaling));
      return fold_reproducibly<T, true>(x, n, scale, kept, other, part);
    } else {
      return false;
    }
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
