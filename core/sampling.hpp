// SPDX-License-Identifier: Apache-2.0
/// \file
/// Sampling from logits as every backend computes it: noise, keys and masses, to the bit.
/// docs/sampling.md is the definition in words.
///
/// Whatever decides a token is an integer or a fixed sequence of f64 operations. A product that is
/// added to is written as fma, so that no compiler has one left to fuse.
#pragma once

#include <core/exponential.hpp>
#include <core/philox.hpp>
#include <core/topk.hpp>

#include <softfold/config.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace softfold::core::sampling {

// ---- Arithmetic.

SOFTFOLD_HD SOFTFOLD_INLINE double fused(double a, double b, double c) {
  using std::fma;
  return fma(a, b, c);
}

SOFTFOLD_HD SOFTFOLD_INLINE float fused(float a, float b, float c) {
  using std::fma;
  return fma(a, b, c);
}

/// a * b, rounded; no compiler may fuse it with what is done to it.
SOFTFOLD_HD SOFTFOLD_INLINE double product(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

/// log(x (1 + share)) for a normal x > 0 and a share far below 1. The error is a few units in the
/// last place of the result, and of 2^-55.
SOFTFOLD_HD SOFTFOLD_INLINE double natural_log_with(double x, double share) {
  // x = 2^exponent f, f in [sqrt(1/2), sqrt(2)), log f = 2 atanh(t), t = (f - 1) / (f + 1).
  constexpr std::uint64_t half_root_bits = 0x3fe6a09e667f3bcdU;
  const auto bits = __builtin_bit_cast(std::uint64_t, x);
  const auto exponent = static_cast<std::int64_t>(bits - half_root_bits) >> 52;
  const auto f = __builtin_bit_cast(double, bits - (static_cast<std::uint64_t>(exponent) << 52));
  const double t = (f - 1) / (f + 1);
  const double square = product(t, t);
  double p = 2.0 / 21;
  p = fused(p, square, 2.0 / 19);
  p = fused(p, square, 2.0 / 17);
  p = fused(p, square, 2.0 / 15);
  p = fused(p, square, 2.0 / 13);
  p = fused(p, square, 2.0 / 11);
  p = fused(p, square, 2.0 / 9);
  p = fused(p, square, 2.0 / 7);
  p = fused(p, square, 2.0 / 5);
  p = fused(p, square, 2.0 / 3);
  p = fused(p, square, 2.0);
  const auto n = static_cast<double>(exponent);
  const double low = fused(n, exponential<double>::ln2_low, share);
  return fused(n, exponential<double>::ln2_high, fused(t, p, low));
}
/// log(x + rest). Of an x of 0 it is NaN, for which compilers divide 0 by x.
SOFTFOLD_HD SOFTFOLD_INLINE double natural_log(double x, double rest = 0) {
  return natural_log_with(x, rest / x);
}

// ---- Noise.

/// What a row's random numbers depend on beside the token.
struct noise {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  std::uint32_t draw = 0;  ///< below most_draws
};

/// Draws of a call, and columns that have noise.
inline constexpr std::int64_t most_draws = std::int64_t{1} << 21;
inline constexpr std::int64_t most_columns = std::int64_t{1} << 42;

/// Tokens that share a block of the first kind of words.
inline constexpr int block_tokens = 8;

/// The counter of a block of words. Kind 0 has 16 bits of each of 8 tokens, kind 1 the further 48
/// bits of one.
SOFTFOLD_HD constexpr SOFTFOLD_INLINE philox_words counter_of(const noise& n, std::uint64_t block,
                                                              std::uint32_t kind) {
  return {static_cast<std::uint32_t>(block),
          static_cast<std::uint32_t>(block >> 32) << 22 | n.draw << 1 | kind,
          static_cast<std::uint32_t>(n.offset), static_cast<std::uint32_t>(n.offset >> 32)};
}

SOFTFOLD_HD constexpr SOFTFOLD_INLINE philox_words first_words(const noise& n,
                                                               std::uint64_t block) {
  return philox4x32<7>(counter_of(n, block, 0), static_cast<std::uint32_t>(n.seed),
                       static_cast<std::uint32_t>(n.seed >> 32));
}

/// The top 16 bits of a token's number, given its block's words.
SOFTFOLD_HD constexpr SOFTFOLD_INLINE std::uint32_t first_bits(const philox_words& w, int place) {
  const std::uint32_t word = place < 4 ? (place < 2 ? w.a : w.b) : (place < 6 ? w.c : w.d);
  return place % 2 == 0 ? word & 0xffffU : word >> 16;
}

/// A token's 64 random bits, given the top 16.
SOFTFOLD_HD constexpr SOFTFOLD_INLINE std::uint64_t all_bits(const noise& n, std::int64_t token,
                                                             std::uint32_t first) {
  const philox_words w =
      philox4x32<10>(counter_of(n, static_cast<std::uint64_t>(token), 1),
                     static_cast<std::uint32_t>(n.seed), static_cast<std::uint32_t>(n.seed >> 32));
  return std::uint64_t{first} << 48 | std::uint64_t{w.a} << 16 | w.b >> 16;
}

SOFTFOLD_HD constexpr SOFTFOLD_INLINE std::uint64_t random_bits(const noise& n,
                                                                std::int64_t token) {
  const auto t = static_cast<std::uint64_t>(token);
  return all_bits(n, token,
                  first_bits(first_words(n, t / block_tokens), static_cast<int>(t % block_tokens)));
}

/// E = -log(1 - u), u = (bits + 1/2) 2^-64: an exponential random number. From 2^-65 to 45.1.
SOFTFOLD_HD SOFTFOLD_INLINE double exponential_number(std::uint64_t bits) {
  constexpr double unit = 0x1p-64;
  const bool is_low = bits >> 63 == 0;
  const std::int64_t number = static_cast<std::int64_t>(is_low ? bits : ~bits);
  const double u = product(static_cast<double>(number) + 0.5, unit);  // or 1 - u
  const double v = 1 - u;
  // One logarithm: lanes of a warp would take two one after the other. v + the rest is 1 - u.
  return -natural_log(is_low ? v : u, is_low ? (1 - v) - u : 0);
}

/// The key of an element with that scaled logit: the largest wins, of equal ones that of the lowest
/// column.
SOFTFOLD_HD SOFTFOLD_INLINE double key_of(double z, std::uint64_t bits) {
  return z - natural_log(exponential_number(bits));
}

// ---- Scaled logits.

/// The inverse of a temperature above 0 in the type of the arithmetic A, as a scale is there.
template <class A>
SOFTFOLD_HD inline double scale_of(double temperature) {
  return static_cast<double>(static_cast<A>(1 / temperature));
}

/// z = s x for s >= 0 and an x that is no NaN; exact for f32 and narrower. -infinity: no element.
SOFTFOLD_HD SOFTFOLD_INLINE double scaled(double scale, double x) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (scale == 0) {
    return x == -infinity ? x : 0.0;
  }
  return product(scale, x);
}

// ---- Masses.

/// A sum of weights in units of 2^-50, exact.
struct mass {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  SOFTFOLD_HD constexpr void add(std::uint64_t weight) {
    low += weight;
    high += low < weight ? 1 : 0;
  }
  SOFTFOLD_HD constexpr void add(const mass& other) {
    add(other.low);
    high += other.high;
  }
  /// other is not larger.
  SOFTFOLD_HD constexpr void subtract(const mass& other) {
    high -= other.high + (low < other.low ? 1 : 0);
    low -= other.low;
  }
  SOFTFOLD_HD constexpr bool reaches(const mass& other) const {
    return high != other.high ? high > other.high : low >= other.low;
  }
  SOFTFOLD_HD constexpr bool is_zero() const { return low == 0 && high == 0; }
  SOFTFOLD_HD double count() const {
    return fused(static_cast<double>(high), 0x1p64, static_cast<double>(low));
  }
  /// In units of 1.
  SOFTFOLD_HD double value() const { return product(count(), 0x1p-50); }
};

inline constexpr int weight_bits = 50;
/// From here on a weight is 0.
inline constexpr double most_below = 36;

/// exp(t) of a t from -ln 2 / 2 to ln 2 / 2.
SOFTFOLD_HD SOFTFOLD_INLINE double exponential_of_rest(double t) {
  using constants = exponential<double>;
  // By name: device code has no arrays of a class.
  constexpr double q0 = constants::q[0];
  constexpr double q1 = constants::q[1];
  constexpr double q2 = constants::q[2];
  constexpr double q3 = constants::q[3];
  constexpr double q4 = constants::q[4];
  constexpr double q5 = constants::q[5];
  constexpr double q6 = constants::q[6];
  constexpr double q7 = constants::q[7];
  constexpr double q8 = constants::q[8];
  constexpr double q9 = constants::q[9];
  double q = fused(q0, t, q1);
  q = fused(q, t, q2);
  q = fused(q, t, q3);
  q = fused(q, t, q4);
  q = fused(q, t, q5);
  q = fused(q, t, q6);
  q = fused(q, t, q7);
  q = fused(q, t, q8);
  q = fused(q, t, q9);
  return fused(fused(q, t, 1.0), t, 1.0);
}

/// z = n ln 2 + rest, n an integer; |z| below 2^50.
struct reduced_logit {
  double n;
  double rest;
};

SOFTFOLD_HD SOFTFOLD_INLINE reduced_logit reduced(double z) {
  using constants = exponential<double>;
  const double magic = constants::round_magic;
  const double n = fused(z, constants::log2_e, magic) - magic;
  const double t = fused(n, -constants::ln2_high, z);
  return {n, fused(n, -constants::ln2_low, t)};
}

/// The weight of an element `below` = fl(largest z - z) below the largest: 2^50 exp(-below),
/// rounded to an integer.
SOFTFOLD_HD inline std::uint64_t weight_of(double below) {
  if (!(below < most_below)) {
    return 0;
  }
  const reduced_logit r = reduced(-below);
  const double e = exponential_of_rest(r.rest);
  const auto power =
      static_cast<std::uint64_t>(static_cast<std::int64_t>(r.n) + 1023 + weight_bits);
  // Adding 2^52 rounds to an integer, which then stands in the low bits.
  const double rounded = fused(e, __builtin_bit_cast(double, power << 52), 0x1p52);
  return __builtin_bit_cast(std::uint64_t, rounded) & ((std::uint64_t{1} << 52) - 1);
}

/// a * b as 64-bit words: no language here has a wider product in common.
SOFTFOLD_HD constexpr mass product_of(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t a_low = a & 0xffffffffU;
  const std::uint64_t b_low = b & 0xffffffffU;
  const std::uint64_t low = a_low * b_low;
  const std::uint64_t middle = (a >> 32) * b_low + (low >> 32);  // cannot overflow
  const std::uint64_t other = a_low * (b >> 32) + (middle & 0xffffffffU);
  return {other << 32 | (low & 0xffffffffU),
          (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32)};
}

/// The mass that the elements kept by top-p have to reach: p of a mass, rounded up; p counts in
/// units of 2^-63, rounded down. At least one unit, so that the first element is kept.
SOFTFOLD_HD constexpr mass share_of(double p, const mass& whole) {
  const auto units = static_cast<std::uint64_t>(p * 0x1p63);
  const mass low = product_of(units, whole.low);
  mass high = product_of(units, whole.high);
  high.add(low.high);
  // (high, low.low) / 2^63, rounded up.
  mass share = {high.low << 1 | low.low >> 63, high.high << 1 | high.low >> 63};
  share.add((low.low << 1) != 0 ? 1 : 0);
  share.add(share.is_zero() ? 1 : 0);
  return share;
}

// ---- A row's parameters and what they keep.

struct parameters {
  double temperature = 1;
  double top_p = 1;
  double min_p = 0;
  std::int64_t top_k = 0;
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
};

/// Whether a row can be sampled with them by arithmetic in A.
template <class A>
SOFTFOLD_HD inline bool are_valid(const parameters& p) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return p.temperature >= 0 && p.temperature < infinity &&
         (p.temperature == 0 || scale_of<A>(p.temperature) < infinity) && p.top_p >= 0 &&
         p.top_p <= 1 && p.min_p >= 0 && p.min_p <= 1 && p.top_k >= 0;
}

/// How far below the largest z min-p lets an element be.
SOFTFOLD_HD inline double min_p_depth(double min_p) {
  if (min_p == 0) {
    return std::numeric_limits<double>::infinity();
  }
  // A subnormal p has a power of two more.
  const bool is_small = min_p < 0x1p-1000;
  const double log = natural_log(is_small ? product(min_p, 0x1p200) : min_p);
  return is_small ? fused(200, 0.6931471805599453, -log) : -log;
}

/// An element in the order of top-k: larger key first, then lower column.
struct place {
  std::uint64_t key = 0;
  std::int64_t column = std::numeric_limits<std::int64_t>::max();

  SOFTFOLD_HD constexpr bool stands_before(const place& other) const {
    return key != other.key ? key > other.key : column < other.column;
  }
};

/// The end of all places.
inline constexpr place last_place{};

/// An element in the race.
struct runner {
  double key = -std::numeric_limits<double>::infinity();
  std::int64_t column = std::numeric_limits<std::int64_t>::max();

  SOFTFOLD_HD constexpr bool beats(const runner& other) const {
    return key != other.key ? key > other.key : column < other.column;
  }
};

/// What a row's filters keep: always the first elements in the order of top-k.
struct kept_elements {
  double largest = 0;  ///< of the z
  double depth = std::numeric_limits<double>::infinity();
  place last = last_place;

  /// z: of the element at that place.
  SOFTFOLD_HD constexpr bool has(double z, const place& at) const {
    return z > -std::numeric_limits<double>::infinity() && largest - z <= depth &&
           !last.stands_before(at);
  }
};

/// What a row is before anything is drawn.
enum class row_kind : std::uint8_t {
  ordinary,
  empty,     ///< no element
  infinite,  ///< its largest z is +infinity
  nan,       ///< a NaN
  invalid,   ///< parameters out of range
};

/// A row's numbers that do not depend on the draw.
struct row_numbers {
  row_kind kind = row_kind::ordinary;
  double lse = 0;        ///< of x as it is
  double largest = 0;    ///< of the z
  double largest_x = 0;  ///< of the x
  std::int64_t kept = 0;
  mass kept_weight;  ///< of what the filters keep
  mass weight;       ///< of all elements
};

SOFTFOLD_HD inline double log_of(const mass& m) { return natural_log(m.value()); }

/// The log-probability of an element by a row's largest element and the logarithm of a sum over
/// that of the largest.
SOFTFOLD_HD inline double log_probability(double largest, double z, double log_of_sum) {
  const double log = (z - largest) - log_of_sum;
  return log < 0 ? log : 0.0;
}
SOFTFOLD_HD inline double log_probability(double largest, double z, const mass& of) {
  return log_probability(largest, z, log_of(of));
}

/// What is written of a row where nothing is drawn from a distribution.
SOFTFOLD_HD inline double log_probability_of(row_kind kind) {
  return kind == row_kind::empty ? -std::numeric_limits<double>::infinity()
                                 : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace softfold::core::sampling
