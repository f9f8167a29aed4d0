// SPDX-License-Identifier: Apache-2.0
/// \file
/// Reproducible numerics, version 1: a row's results as every backend computes them, to the bit.
/// docs/numerics.md is the definition in words.
///
/// An element's term is p 2^n, found from the element alone. Eight neighbouring columns are a
/// packet, whose terms add up in one fixed order; packets' sums are integers times powers of two
/// and add up as such, exactly. So it does not matter how rows are cut between packets, nor in
/// which order the parts come together.
#pragma once

#include <core/compensated_sum.hpp>
#include <core/sampling.hpp>

#include <softfold/config.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace softfold::core::reproducible {

using sampling::fused;
using sampling::mass;
using sampling::product;

SOFTFOLD_HD SOFTFOLD_INLINE float product(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

/// Neighbouring columns, from a multiple of so many on.
inline constexpr int packet_columns = 8;

/// Rows with a largest scaled element of at least this size are taken relative to it.
template <class A>
inline constexpr A far_from = A(0x1p16);
/// A part of a row is not yet far with a largest scaled element between -far_from and this: it may
/// be of a row that is near, to which no lower one adds anything.
template <class A>
inline constexpr A far_below_from = A(-1.5) * far_from<A>;

/// What the arithmetic of type A is made of.
template <class A>
struct format;

template <>
struct format<float> {
  using bits = std::uint32_t;
  static constexpr int digits = 23;      ///< of a fraction
  static constexpr int smallest = -126;  ///< power of two of a normal number
  static constexpr float log2_e = 0x1.715476p+0F;
  /// 20 bits, so that z - n ln2 is exact. What it lacks of the logarithm, 1.9e-9, counts once for
  /// each power of two that an element is below the largest.
  static constexpr float ln2 = 0x1.62e430p-1F;
  static constexpr float magic = 0x1.8p23F;  ///< adding it rounds to an integer
  /// A term is held as p 2^(n - 32 anchor + raised): its biased exponent then has the last 5 bits
  /// of n's, and what is too small to be held is of no account.
  static constexpr int raised = 65;
  static constexpr int words = 3;  ///< of a sum
  /// exp(r) of |r| up to 0.3467, from the highest coefficient down. The error is below 2.7 2^-24 of
  /// it.
  static constexpr float q[] = {0x1.106018p-7F, 0x1.572a14p-5F, 0x1.5557b0p-3F,
                                0x1.fffdfcp-2F, 1.0F,           1.0F};
};

template <>
struct format<double> {
  using bits = std::uint64_t;
  static constexpr int digits = 52;
  static constexpr int smallest = -1022;
  static constexpr double log2_e = exponential<double>::log2_e;
  static constexpr double magic = exponential<double>::round_magic;
  static constexpr int raised = 1;
  static constexpr int words = 4;
};

SOFTFOLD_HD SOFTFOLD_INLINE float polynomial(float r) {
  // By name: device code has no arrays of a class.
  constexpr float q0 = format<float>::q[0];
  constexpr float q1 = format<float>::q[1];
  constexpr float q2 = format<float>::q[2];
  constexpr float q3 = format<float>::q[3];
  constexpr float q4 = format<float>::q[4];
  constexpr float q5 = format<float>::q[5];
  float p = fused(q0, r, q1);
  p = fused(p, r, q2);
  p = fused(p, r, q3);
  p = fused(p, r, q4);
  return fused(p, r, q5);
}

/// The exponent 0 as a number's bits have it.
template <class A>
inline constexpr int bias_of = 1 - format<A>::smallest;

/// An exponent z + lost, lost far below z.
template <class A>
struct exponent {
  A z;
  A lost;
};

/// Of z above -2^17 and not above 2^16: exp(z + lost) is about p 2^n.
template <class A>
struct term {
  A n;
  A p;
};

SOFTFOLD_HD SOFTFOLD_INLINE term<float> term_of(const exponent<float>& e) {
  using f = format<float>;
  const float n = fused(e.z, f::log2_e, f::magic) - f::magic;
  return {n, polynomial(fused(n, -f::ln2, e.z) + e.lost)};
}
SOFTFOLD_HD SOFTFOLD_INLINE term<double> term_of(const exponent<double>& e) {
  const sampling::reduced_logit r = sampling::reduced(e.z);
  return {r.n, sampling::exponential_of_rest(r.rest + e.lost)};
}

/// p 2^power: a power for which it is normal.
template <class A>
SOFTFOLD_HD SOFTFOLD_INLINE A times_power(A p, std::int64_t power) {
  using bits = typename format<A>::bits;
  return __builtin_bit_cast(A, static_cast<bits>(__builtin_bit_cast(bits, p) +
                                                 (static_cast<bits>(power) << format<A>::digits)));
}

/// How a row's elements become exponents.
template <class A>
struct frame {
  A scale = 1;
  A origin =
      0;  ///< the row's largest element, or the smallest of a negative scale, where it is far
  bool is_far = false;
  bool of_state = false;  ///< the origin is not an element but, with origin_lost, an exponent
  A origin_lost = 0;

  /// s x: as each element is scaled before anything is known of its row; x is no NaN.
  SOFTFOLD_HD static SOFTFOLD_INLINE exponent<A> scaled(A scale, A x) {
    constexpr A infinity = std::numeric_limits<A>::infinity();
    if (scale == 0) {
      return {x == -infinity ? x : A{0}, A{0}};
    }
    const A z = product(scale, x);
    return {z, z < infinity && z > -infinity ? fused(scale, x, -z) : A{0}};
  }
  /// Of a row with this largest element, in the order of scaled ones.
  SOFTFOLD_HD static SOFTFOLD_INLINE frame of(A scale, A largest) {
    const A z = scaled(scale, largest).z;
    const bool is_far = !(z < far_from<A> && z > -far_from<A>);
    return {scale, is_far ? largest : A{0}, is_far};
  }
  /// Of a part of a row whose state has this largest exponent.
  SOFTFOLD_HD static SOFTFOLD_INLINE frame of_exponent(A scale, const exponent<A>& largest) {
    const bool is_far = !(largest.z < far_from<A> && largest.z > far_below_from<A>);
    return {scale, is_far ? largest.z : A{0}, is_far, true, is_far ? largest.lost : A{0}};
  }
  /// -infinity for what is not there; x is no NaN.
  [[nodiscard]] SOFTFOLD_HD SOFTFOLD_INLINE exponent<A> operator()(A x) const {
    return is_far ? far(x) : scaled(scale, x);
  }
  /// Of an exponent that is relative to nothing, what it is relative to the origin; not above 0.
  [[nodiscard]] SOFTFOLD_HD exponent<A> relative(const exponent<A>& e) const {
    constexpr A infinity = std::numeric_limits<A>::infinity();
    if (!(e.z > -infinity && infinity > e.z)) {
      return {-infinity, A{0}};
    }
    if constexpr (std::is_same_v<A, float>) {
      const double z = (static_cast<double>(e.z) + static_cast<double>(e.lost)) -
                       (static_cast<double>(origin) + static_cast<double>(origin_lost));
      const auto rounded = static_cast<float>(z);
      return {rounded, rounded > -infinity ? static_cast<float>(z - rounded) : 0.0F};
    } else {
      const double a = e.z - origin;  // exact where it is of account
      const double b = e.lost - origin_lost;
      const double z = a + b;
      const double of_b = z - a;
      return {z, z > -infinity ? (a - (z - of_b)) + (b - of_b) : 0.0};
    }
  }

 private:
  [[nodiscard]] SOFTFOLD_HD SOFTFOLD_INLINE exponent<A> far(A x) const {
    constexpr A infinity = std::numeric_limits<A>::infinity();
    if (of_state) {
      return relative(scaled(scale, x));
    }
    const A scaled_x = product(scale, x);
    if (scaled_x == infinity || scaled_x == -infinity) {  // past the range: not there
      return {-infinity, A{0}};
    }
    if constexpr (std::is_same_v<A, float>) {
      const double z =
          product(static_cast<double>(scale), static_cast<double>(x) - static_cast<double>(origin));
      const auto rounded = static_cast<float>(z);
      return {rounded, rounded > -infinity ? static_cast<float>(z - rounded) : 0.0F};
    } else {
      // Halves: their difference does not overflow.
      const double half = product(0.5, x) - product(0.5, origin);
      const double z = 2 * product(scale, half);
      return {z, z > -infinity ? 2 * fused(scale, half, -z / 2) : 0.0};
    }
  }
};

/// A sum of packets. `words[i]` are the digits to the base 2^32 of place top - i; a packet's sum M
/// 2^(E - digits) with an integer M has digits() of place floor(E / 32) and below. Lower ones than
/// those of `words` are dropped, whatever the order of additions.
template <class A>
struct exact_sum {
  static constexpr int words_of = format<A>::words;
  static constexpr std::int32_t lowest_top = -(1 << 16);

  std::int32_t top = lowest_top;
  mass words[static_cast<unsigned>(words_of)];

  /// The words become those of a top that is not lower.
  SOFTFOLD_HD constexpr SOFTFOLD_INLINE void raise(std::int32_t to) {
    // By constant places only: device code would have the words in memory else.
    for (std::int32_t up = to - top < words_of ? to - top : words_of; up > 0; --up) {
      for (int i = words_of - 1; i > 0; --i) {
        words[i] = words[i - 1];
      }
      words[0] = mass{};
    }
    top = to;
  }
  SOFTFOLD_HD constexpr SOFTFOLD_INLINE void add(exact_sum other) {
    if (other.top > top) {
      raise(other.top);
    } else {
      other.raise(top);
    }
    for (int i = 0; i < words_of; ++i) {
      words[i].add(other.words[i]);
    }
  }
  /// A packet's sum, of terms held by this anchor.
  SOFTFOLD_HD void add(A sum, std::int32_t anchor) {
    using f = format<A>;
    using bits_type = typename f::bits;
    constexpr int bias = bias_of<A>;
    static_assert((bias + f::raised) % 32 == 0);
    const auto bits = __builtin_bit_cast(bits_type, sum);
    const auto exponent = static_cast<std::int32_t>(bits >> f::digits);
    const std::int32_t place = (exponent >> 5) - (bias + f::raised) / 32 + anchor;
    if (place > top) {
      raise(place);
    }
    constexpr bits_type one = bits_type{1} << f::digits;
    const std::uint64_t factor = (bits & (one - 1)) | one;
    const int shift = exponent & 31;
    const std::int32_t down = top - place;
    if constexpr (sizeof(A) == 4) {
      add_digit(down, factor << shift);
    } else {  // in units of 2^-64: 96 bits
      add_digit(down, factor >> (52 - shift));
      const std::uint64_t low = factor << (12 + shift);
      add_digit(down + 1, low >> 32);
      add_digit(down + 2, low & 0xffffffffU);
    }
  }
  /// Over 2^n, which is within 2^40 of it.
  [[nodiscard]] SOFTFOLD_HD SOFTFOLD_INLINE double over(A n) const {
    double sum = words[words_of - 1].count();
    for (int i = words_of - 2; i >= 0; --i) {
      sum = fused(sum, 0x1p-32, words[i].count());
    }
    const std::int64_t power = 32 * std::int64_t{top} - static_cast<std::int64_t>(n) -
                               (sizeof(A) == 4 ? format<A>::digits : 0);
    return product(sum, __builtin_bit_cast(double, static_cast<std::uint64_t>(power + 1023) << 52));
  }

 private:
  SOFTFOLD_HD constexpr void add_digit(std::int32_t down, std::uint64_t digit) {
    for (int i = 0; i < words_of; ++i) {
      words[i].add(down == i ? digit : 0);
    }
  }
};

/// The anchor for terms up to this n.
template <class A>
SOFTFOLD_HD SOFTFOLD_INLINE std::int32_t anchor_of(A n) {
  return static_cast<std::int32_t>(n) >> 5;
}

/// A term as it is held; of a power that is too low it is some number of no account.
template <class A>
SOFTFOLD_HD SOFTFOLD_INLINE A held(const term<A>& t, std::int32_t anchor) {
  using f = format<A>;
  const std::int64_t power = static_cast<std::int64_t>(t.n) - 32 * std::int64_t{anchor} + f::raised;
  constexpr std::int64_t lowest = f::smallest + 1;
  return times_power(t.p, power < lowest ? lowest : power);
}

/// A packet's terms in their order of addition.
template <class A>
SOFTFOLD_HD SOFTFOLD_INLINE A sum_of_packet(const A (&t)[packet_columns]) {
  return ((t[0] + t[4]) + (t[2] + t[6])) + ((t[1] + t[5]) + (t[3] + t[7]));
}

using sampling::row_kind;

/// What all elements of a row need of it.
template <class A>
struct row_total {
  /// Softmax's terms have so many more, so that a product that is subnormal is rounded once.
  static constexpr int spare_power = 64;

  frame<A> exponents;
  row_kind kind = row_kind::ordinary;
  A n = 0;     ///< of the largest element's term
  A high = 0;  ///< 1 over the sum over 2^(n - spare_power), in two parts
  A low = 0;
  A log_high = 0;  ///< the logarithm of the sum as the frame's exponents are, in two parts
  A log_low = 0;
  A lse = 0;

  /// Of a row with that largest element, of scaled ones, NaN if there is one, and that sum.
  SOFTFOLD_HD static SOFTFOLD_INLINE row_total of(A scale, A largest, const exact_sum<A>& sum) {
    constexpr A infinity = std::numeric_limits<A>::infinity();
    row_total r;
    r.kind = kind_of(scale, largest);
    if (r.kind != row_kind::ordinary) {
      r.lse = r.kind == row_kind::nan     ? std::numeric_limits<A>::quiet_NaN()
              : r.kind == row_kind::empty ? -infinity
                                          : infinity;
      return r;
    }
    r.exponents = frame<A>::of(scale, largest);
    r.set(r.exponents(largest), frame<A>::scaled(scale, largest), sum);
    return r;
  }
  /// Of a row or part with that largest exponent, NaN or an infinity if it is not ordinary.
  SOFTFOLD_HD static row_total of_exponent(A scale, const exponent<A>& largest,
                                           const exact_sum<A>& sum) {
    row_total r;
    r.kind = kind_of(largest.z);
    if (r.kind != row_kind::ordinary) {
      r.lse = r.kind == row_kind::nan ? std::numeric_limits<A>::quiet_NaN() : largest.z;
      return r;
    }
    r.exponents = frame<A>::of_exponent(scale, largest);
    r.set(r.exponents.is_far ? exponent<A>{} : largest, largest, sum);
    return r;
  }
  SOFTFOLD_HD static SOFTFOLD_INLINE row_kind kind_of(A scale, A largest) {
    return largest != largest ? row_kind::nan : kind_of(frame<A>::scaled(scale, largest).z);
  }
  /// Of the largest scaled element.
  SOFTFOLD_HD static SOFTFOLD_INLINE row_kind kind_of(A z) {
    constexpr A infinity = std::numeric_limits<A>::infinity();
    return z != z           ? row_kind::nan
           : z == -infinity ? row_kind::empty
           : z == infinity  ? row_kind::infinite
                            : row_kind::ordinary;
  }

  /// Of an ordinary row's elements.
  [[nodiscard]] SOFTFOLD_HD A softmax(A x) const {
    const exponent<A> e = exponents(x);
    if (!(e.z > lowest())) {
      return A{0};
    }
    const term<A> t = term_of(e);
    const std::int64_t power = static_cast<std::int64_t>(t.n) - static_cast<std::int64_t>(n);
    const A w = times_power(t.p, (power < least_power() ? least_power() : power) + spare_power);
    return fused(w, high, product(w, low));
  }
  [[nodiscard]] SOFTFOLD_HD A log_softmax(A x) const {
    const exponent<A> e = exponents(x);
    return (e.z - log_high) + (e.lost - log_low);
  }
  /// What is so much below the largest rounds to 0.
  SOFTFOLD_HD static constexpr std::int64_t least_power() {
    return format<A>::smallest - format<A>::digits - 10;
  }
  /// Nothing so low has a term.
  SOFTFOLD_HD static constexpr A lowest() { return -2 * far_from<A>; }

 private:
  /// From the largest element's exponent, in the row's frame and relative to nothing.
  SOFTFOLD_HD SOFTFOLD_INLINE void set(const exponent<A>& e, const exponent<A>& from_zero,
                                       const exact_sum<A>& sum) {
    const term<A> t = term_of(e);
    n = t.n;
    constexpr double unit = 0x1p-64;  // 2^-spare_power
    const double whole = sum.over(t.n);
    const double log = sampling::natural_log_with(whole / static_cast<double>(t.p), 0);
    const double inverse = product(1 / whole, unit);
    high = static_cast<A>(inverse);
    if constexpr (sizeof(A) == 4) {
      low = static_cast<A>(inverse - high);
      // The sum of e is exact.
      const double relative = (static_cast<double>(e.z) + static_cast<double>(e.lost)) + log;
      log_high = static_cast<A>(relative);
      log_low = static_cast<A>(relative - log_high);
      lse = static_cast<A>(
          (static_cast<double>(from_zero.z) + static_cast<double>(from_zero.lost)) + log);
    } else {
      low = product(fused(-high, whole, unit), product(high, 0x1p64));
      const double more = e.lost + log;
      log_high = e.z + more;
      const double other = log_high - e.z;  // the sum's rounding, exactly
      log_low = (e.z - (log_high - other)) + (more - other);
      lse = from_zero.z + (from_zero.lost + log);
    }
  }
};

/// Of eight elements' exponents, absent ones -infinity: to a sum with terms up to that anchor.
template <class A>
SOFTFOLD_HD inline void add_packet(const exponent<A> (&e)[packet_columns], std::int32_t anchor,
                                   exact_sum<A>& sum) {
  A held_terms[packet_columns];
  bool any = false;
  for (int i = 0; i < packet_columns; ++i) {
    const bool counts = e[i].z > row_total<A>::lowest();
    held_terms[i] = counts ? held(term_of(e[i]), anchor) : A{0};
    any = any || counts;
  }
  if (any) {
    sum.add(sum_of_packet(held_terms), anchor);
  }
}

/// Whether x is larger than the largest so far in the order of scaled elements; a NaN is, until
/// there is one.
template <class A>
SOFTFOLD_HD SOFTFOLD_INLINE bool is_larger(A scale, A x, A largest) {
  return largest == largest && (x != x || (scale < 0 ? x < largest : x > largest));
}

/// The plain way: two reads of a part of a row, x(column) from a multiple of packet_columns on.
/// `finish` makes the result of its largest element and the sum of its terms in the frame
/// frame_of(largest). The oracle of the tests, and what rows take that nothing quicker is for.
template <class A, class Row, class FrameOf, class Finish>
SOFTFOLD_HD inline auto fold_plainly(A scale, std::int64_t cols, const Row& x,
                                     const FrameOf& frame_of, const Finish& finish) {
  constexpr A infinity = std::numeric_limits<A>::infinity();
  A largest = scale < 0 ? infinity : -infinity;
  for (std::int64_t c = 0; c < cols; ++c) {
    const A element = x(c);
    largest = is_larger(scale, element, largest) ? element : largest;
  }
  exact_sum<A> sum;
  if (row_total<A>::kind_of(scale, largest) == row_kind::ordinary) {
    const frame<A> exponents = frame_of(largest);
    const std::int32_t anchor = anchor_of(term_of(exponents(largest)).n);
    for (std::int64_t c = 0; c < cols; c += packet_columns) {
      exponent<A> e[packet_columns];
      for (int i = 0; i < packet_columns; ++i) {
        e[i] = c + i < cols ? exponents(x(c + i)) : exponent<A>{-infinity, A{0}};
      }
      add_packet(e, anchor, sum);
    }
  }
  return finish(largest, sum);
}

template <class A, class Row>
SOFTFOLD_HD inline row_total<A> total_of(A scale, std::int64_t cols, const Row& x) {
  return fold_plainly(
      scale, cols, x, [scale](A largest) { return frame<A>::of(scale, largest); },
      [scale](A largest, const exact_sum<A>& sum) {
        return row_total<A>::of(scale, largest, sum);
      });
}

// ---- Gradients.

/// Packets of a tile, whose sums add up by halves: i and i + 128, then i and i + 64, ..., 1.
inline constexpr int tile_packets = 256;
inline constexpr int tile_columns = tile_packets * packet_columns;

/// What a gradient's sum is of: y dy for softmax, exact unless elements are f64; dy for
/// log-softmax.
template <class A>
SOFTFOLD_HD SOFTFOLD_INLINE double summand(bool log, A y, A dy) {
  const auto wide = static_cast<double>(dy);
  return log ? wide : product(static_cast<double>(y), wide);
}

/// Of a tile's packets, absent ones 0. The sums are overwritten.
SOFTFOLD_HD inline double sum_of_tile(double (&packets)[tile_packets]) {
  for (int half = tile_packets / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) {
      packets[i] += packets[i + half];
    }
  }
  return packets[0];
}

/// Where exp(y) is neither 0 nor infinite.
template <class A>
inline constexpr A lowest_exponent = sizeof(A) == 4 ? A(-110) : A(-760);
template <class A>
inline constexpr A highest_exponent = sizeof(A) == 4 ? A(90) : A(720);

/// exp(y) by its term: p 2^floor(n / 2) is normal, so that one rounding is left.
template <class A>
SOFTFOLD_HD inline A exponential_of(A y) {
  if (y != y) {
    return y;
  }
  const A within = y < lowest_exponent<A>    ? lowest_exponent<A>
                   : y > highest_exponent<A> ? highest_exponent<A>
                                             : y;
  const term<A> t = term_of(exponent<A>{within, A{0}});
  const auto n = static_cast<std::int64_t>(t.n);
  const std::int64_t half = n >> 1;
  return product(times_power(t.p, half), times_power(A{1}, n - half));
}

/// What all elements of a row need for their gradient.
template <class A>
struct row_gradient {
  A scale = 1;
  A high = 0;  ///< the sum, in two parts
  A low = 0;

  SOFTFOLD_HD static row_gradient of(A scale, const compensated_sum& sum) {
    row_gradient r;
    r.scale = scale;
    const double whole = sum.total();
    r.high = static_cast<A>(whole);
    if constexpr (sizeof(A) == 4) {
      r.low = static_cast<A>(whole - r.high);
    } else {
      r.low = sum.lost - (whole - sum.value);
    }
    return r;
  }
  [[nodiscard]] SOFTFOLD_HD A softmax(A y, A dy) const {
    return canonical(product(scale, product(y, (dy - high) - low)));
  }
  /// The lower part is no matter where exp(y) is infinite: an infinity less another would be NaN.
  [[nodiscard]] SOFTFOLD_HD A log_softmax(A y, A dy) const {
    const A e = exponential_of(y);
    const A finite = e > std::numeric_limits<A>::max() ? std::numeric_limits<A>::max() : e;
    return canonical(product(scale, fused(-finite, low, fused(-e, high, dy))));
  }
  SOFTFOLD_HD static A canonical(A x) { return x != x ? std::numeric_limits<A>::quiet_NaN() : x; }
};

/// The plain way: y(column) and dy(column) of one row.
template <class A, class Y, class Dy>
SOFTFOLD_HD inline row_gradient<A> gradient_of(bool log, A scale, std::int64_t cols, const Y& y,
                                               const Dy& dy) {
  compensated_sum sum;  // tiles, in ascending order
  for (std::int64_t begin = 0; begin < cols; begin += tile_columns) {
    double packets[tile_packets];
    for (int p = 0; p < tile_packets; ++p) {
      double t[packet_columns];
      for (int i = 0; i < packet_columns; ++i) {
        const std::int64_t c = begin + p * packet_columns + i;
        t[i] = c < cols ? summand<A>(log, y(c), dy(c)) : 0.0;
      }
      packets[p] = sum_of_packet(t);
    }
    sum.add(sum_of_tile(packets));
  }
  return row_gradient<A>::of(scale, sum);
}

}  // namespace softfold::core::reproducible
