// SPDX-License-Identifier: Apache-2.0
/// \file
/// Words of core/reproducible.hpp by vectors. A packet's sum is an integer times a power of two:
/// its digits are added to the word of its place and to that below it.
#pragma once

#include <backends/host/kernels/elements.hpp>
#include <backends/host/kernels/fold.hpp>
#include <backends/host/kernels/lanes.hpp>
#include <backends/host/kernels/reproducible_terms.hpp>
#include <backends/host/kernels/table.hpp>

#include <core/exact_state.hpp>
#include <core/reproducible.hpp>

#include <bit>
#include <cstdint>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// The largest lane.
template <int lanes, class Words, int flip = lanes / 2>
SOFTFOLD_INLINE std::uint32_t largest_lane(Words w) {
  if constexpr (flip == 0) {
    return w[0];
  } else {
    Words other;
    exchange_lanes<lanes, flip>(w, other);
    return largest_lane<lanes, Words, flip / 2>(w > other ? w : other);
  }
}

/// Sums of packets whose powers are close to each other, as those of most rows are: numbers of f64
/// that add up exactly.
template <class A>
struct close_sums {};
template <>
class close_sums<float> {
  using V = vec<float>;
  using D = vec<double>;
  using words = float_words<float>::type;

 public:
  /// The sums are also in memory, from where they become f64 on the way.
  SOFTFOLD_INLINE void add(V sums, const float* stored) {
    total_[0] = total_[0] + D::load(stored);
    total_[1] = total_[1] + D::load(stored + D::lanes);
    const words bits = reinterpret_cast<words>(sums.v);
    const words others = bits - 1U;  // 0, which adds nothing, becomes the largest
    highest_ = bits > highest_ ? bits : highest_;
    lowest_ = others < lowest_ ? others : lowest_;
  }

  /// Lanes, whose sum is exact, too, if are_close().
  [[nodiscard]] SOFTFOLD_INLINE D total() const { return total_[0] + total_[1]; }

  /// Whether all sums of that many columns have room in a fraction. Not if there is a NaN, whatever
  /// its sign, or none above 0.
  [[nodiscard]] SOFTFOLD_INLINE bool are_close(std::int64_t columns) const {
    return highest() - 0x30000000U < 0x40000000U &&
           (highest() >> 23) - (lowest() >> 23) <= most_powers(columns);
  }

  /// The bits of the highest sums, a lane each, and what is one less than those of the lowest.
  [[nodiscard]] SOFTFOLD_INLINE words highest_of_lanes() const { return highest_; }
  [[nodiscard]] SOFTFOLD_INLINE words lowest_of_lanes() const { return lowest_; }
  /// are_close() of as many rows as a vector has lanes, a bit for each.
  static SOFTFOLD_INLINE unsigned are_close(words highest, words lowest, std::int64_t columns) {
    const auto close = (highest - 0x30000000U < 0x40000000U) &
                       ((highest >> 23) - ((lowest + 1U) >> 23) <= most_powers(columns));
    V all_ones;  // which are a NaN
    all_ones.v = reinterpret_cast<decltype(all_ones.v)>(close);
    return V::bits(unordered(all_ones, all_ones));
  }

  /// To the word of their place. False if they are not close, or of several places.
  SOFTFOLD_INLINE bool add_to(std::int64_t columns, reproducible_part& part) const {
    const std::uint32_t place = highest() >> 28;
    if (!are_close(columns) || lowest() >> 28 != place) {
      return false;
    }
    const double word = total().reduce_add() * power_of_two(150 - 32.0 * place);
    const auto upper = static_cast<std::uint64_t>(word * 0x1p-32);
    part.high[6 - place] = upper;
    part.low[6 - place] = static_cast<std::uint64_t>(word - static_cast<double>(upper) * 0x1p32);
    return true;
  }

 private:
  /// Between the highest and the lowest.
  static SOFTFOLD_INLINE std::uint32_t most_powers(std::int64_t columns) {
    const auto packets = static_cast<std::uint64_t>(columns / definition::packet_columns);
    return 29U - static_cast<std::uint32_t>(std::bit_width(packets));
  }
  [[nodiscard]] SOFTFOLD_INLINE std::uint32_t highest() const {
    return largest_lane<V::lanes>(highest_);
  }
  [[nodiscard]] SOFTFOLD_INLINE std::uint32_t lowest() const {
    return ~largest_lane<V::lanes>(~lowest_) + 1;
  }

  D total_[2] = {D(0.0), D(0.0)};
  words highest_{};
  words lowest_ = ~words{};
};

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

  static SOFTFOLD_INLINE bool add(const float* sums, int count, reproducible_part& part) {
    Keys above{};
    words highest{};
    words lowest = ~words{};
    for (int place = 6; place >= 4; place -= 2) {
      Keys upper{};
      Keys lower{};
      const Keys upper_end = Keys{} + 32U * static_cast<unsigned>(place);
      for (int i = 0; i < count; ++i) {
        const V of = V::load(sums + i * V::lanes);
        add_digits_of(of, upper_end, upper, lower);
        const words bits = reinterpret_cast<words>(of.v);
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
      if (largest_lane<V::lanes>(highest) >= 0x70000000U) {  // of a NaN, whatever its sign
        return false;
      }
      if (~largest_lane<V::lanes>(~lowest) >= 0x20000000U)
          [[likely]] {  // nothing of places 4 and 3
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
};

/// The anchor's place is 32. A sum has digits of three places, each below 2^32.
template <class Keys>
struct place_words<Keys, vec<double>> {
  static constexpr int lanes = static_cast<int>(sizeof(Keys) / 8);

  static SOFTFOLD_INLINE bool add(const double* sums, int count, reproducible_part& part) {
    Keys highest{};
    Keys all[5] = {};
    for (int i = 0; i < count; ++i) {
      const Keys bits = reinterpret_cast<Keys>(vec<double>::load(sums + i * lanes).v);
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
  static SOFTFOLD_INLINE bool add(const A* sums, int count, reproducible_part& part) {
    bool ordinary = true;
    for (int i = 0; i < count * vec<A>::lanes; ++i) {
      ordinary = add_digits(sums[i], part) && ordinary;
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

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
