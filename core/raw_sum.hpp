// SPDX-License-Identifier: Apache-2.0
/// \file
/// The sum of exp(x) over a row as it is, of f32 arithmetic: each term is an integer times a power
/// of two, found in f32 from its x alone, and terms add up as integers. So one read of the row in
/// any order is enough, and neither the order nor the grouping shows. docs/sampling.md has it in
/// words.
#pragma once

#include <core/sampling.hpp>

#include <softfold/config.hpp>

#include <cmath>
#include <cstdint>

namespace softfold::core::sampling {

/// A term is factor 2^n, about 1.375 2^23 exp(x): whoever divides by the largest element's term is
/// rid of what is constant.
namespace raw_terms {

inline constexpr float log2_e = 0x1.715476p+0F;
/// x - n ln2 is exact in f32. What this lacks of the logarithm, 1.9e-9, counts once for each power
/// of two that an element is below the largest.
inline constexpr float ln2 = 0x1.62e430p-1F;
/// Adding it rounds to an integer n, which then stands in the low bits. Ties do not exist: log2_e
/// has 24 bits, so a product with half of an odd number is beyond 2^21.
inline constexpr float magic = 0x1.8p23F;
inline constexpr std::uint32_t magic_bits = 0x4b400000U;
/// 2^-5 above the polynomial's last coefficient, 1.375: the sum is in [1, 2), where f32 is in fixed
/// point. The bits less this number are the factor.
inline constexpr float last = 0x1.68p+0F;
inline constexpr std::uint32_t last_bits = 0x3f040000U;

/// Elements that a sum may have; those of a row with a largest element beyond are taken relative to
/// it.
inline constexpr float near = 0x1p16F;
/// The lowest place that a sum may have on top, below those of all near elements.
inline constexpr std::int32_t lowest_top = -4096;
/// Nothing so low counts.
inline constexpr float lowest = -0x1p17F;

/// A float, of which the bits tell the factor; |rest| up to 0.3485. V is a float or a vector of
/// them.
template <class V>
SOFTFOLD_HD SOFTFOLD_ALWAYS_INLINE V polynomial(V rest) {
  V q = fused(V(0x1.75d75cp-7F), rest, V(0x1.d82a76p-5F));
  q = fused(q, rest, V(0x1.d55c04p-3F));
  q = fused(q, rest, V(0x1.5ffdf6p-1F));
  q = fused(q, rest, V(0x1.5ffff6p+0F));
  return fused(q, rest, V(last));
}

/// Where places of 32 powers of two end: no x up to here has an n of a place above `top`.
SOFTFOLD_HD SOFTFOLD_ALWAYS_INLINE float end_of(std::int32_t top) {
  return (static_cast<float>(32 * top) + 31.484375F) * ln2;
}

}  // namespace raw_terms

struct raw_term {
  std::int32_t n;
  std::uint32_t factor;  ///< below 2^24

  /// Of n = 32 place + s, s from 0 to 31.
  [[nodiscard]] SOFTFOLD_HD std::int32_t place() const { return n >> 5; }
  /// factor 2^s
  [[nodiscard]] SOFTFOLD_HD std::uint64_t digits() const {
    return std::uint64_t{factor} << (n & 31);
  }
};

/// Of an x above raw_terms::lowest, and not above raw_terms::near.
SOFTFOLD_HD SOFTFOLD_ALWAYS_INLINE raw_term raw_term_of(float x) {
  const float n = fused(x, raw_terms::log2_e, raw_terms::magic) - raw_terms::magic;
  const float rest = fused(n, -raw_terms::ln2, x);
  return {static_cast<std::int32_t>(n),
          __builtin_bit_cast(std::uint32_t, raw_terms::polynomial(rest)) - raw_terms::last_bits};
}

/// What is subtracted from the elements of a row: 0, or its largest element, if that is far away.
SOFTFOLD_HD SOFTFOLD_ALWAYS_INLINE float raw_base(float largest) {
  return largest < raw_terms::near && largest > -raw_terms::near ? 0.0F : largest;
}

/// The place on top of a sum of elements with a largest one; -infinity is none.
SOFTFOLD_HD SOFTFOLD_ALWAYS_INLINE std::int32_t raw_top(float largest) {
  return largest > raw_terms::end_of(raw_terms::lowest_top) ? raw_term_of(largest).place()
                                                            : raw_terms::lowest_top;
}

/// The sum of terms: digits() of the place on top and the two below it. Lower ones are dropped.
struct raw_sum {
  std::int32_t top = raw_terms::lowest_top;
  mass words[3];

  /// The sum's words become those of a top that is not lower.
  SOFTFOLD_HD constexpr void raise(std::int32_t to) {
    const std::int32_t up = to - top;
    if (up != 0) {
      words[2] = up == 1 ? words[1] : up == 2 ? words[0] : mass{};
      words[1] = up == 1 ? words[0] : mass{};
      words[0] = {};
      top = to;
    }
  }
  /// Of raw_terms::near at most.
  SOFTFOLD_HD void add(float x) {
    if (!(x > raw_terms::lowest)) {
      return;
    }
    const raw_term term = raw_term_of(x);
    if (term.place() > top) {
      raise(term.place());
    }
    const std::int32_t down = top - term.place();
    const std::uint64_t digits = term.digits();
    words[0].add(down == 0 ? digits : 0);
    words[1].add(down == 1 ? digits : 0);
    words[2].add(down == 2 ? digits : 0);
  }
  SOFTFOLD_HD constexpr void add(raw_sum other) {
    if (other.top > top) {
      raise(other.top);
    } else {
      other.raise(top);
    }
    words[0].add(other.words[0]);
    words[1].add(other.words[1]);
    words[2].add(other.words[2]);
  }
  /// log of the sum divided by the term of its largest element; at least 0, and 0 for one element.
  [[nodiscard]] SOFTFOLD_HD double log_over(float largest) const {
    const double low = fused(words[2].count(), 0x1p-32, words[1].count());
    const double sum = fused(low, 0x1p-32, words[0].count());
    return natural_log(sum / static_cast<double>(raw_term_of(largest).digits()));
  }
};

}  // namespace softfold::core::sampling
