// SPDX-License-Identifier: Apache-2.0
/// \file
/// Softmax, log-softmax and logsumexp as core/reproducible.hpp has them: the fold of a part of a
/// row in one read, and the second look.
///
/// Eight vectors are a block. Its terms are relative to an anchor that is found with the first
/// block and rises when a later one outgrows it, and come together in packets, whose sums are added
/// to the words of a part in the end.
#pragma once

#include <backends/host/kernels/elements.hpp>
#include <backends/host/kernels/fold.hpp>
#include <backends/host/kernels/fused.hpp>
#include <backends/host/kernels/reproducible_packets.hpp>
#include <backends/host/kernels/reproducible_terms.hpp>
#include <backends/host/kernels/reproducible_words.hpp>

#include <core/reproducible.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// `to_l2`: see prefetch_ahead.
template <class T, bool scaled, bool keep, bool to_l2>
class reproducible_fold {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  using terms = reproducible_terms<A, scaled>;
  static constexpr std::int64_t block_columns = block_vectors * V::lanes;
  /// Those of f32 that are too low to be held are those of probabilities that are 0.
  static constexpr bool may_lack_terms = keep && sizeof(A) == 8;

 public:
  SOFTFOLD_INLINE reproducible_fold(A scale, A* kept)
      : scale_(scale),
        of_(scale, 0, held_exponent<A>),
        above_lowest_(static_cast<A>(3 * ln2_of_limits) / scale),
        best_(-infinity<A>),
        kept_(kept) {}

  /// False if the row needs the plain way. beside(i, terms) is called for each vector before its
  /// terms are kept.
  template <class Beside>
  SOFTFOLD_INLINE bool take(const T* x, std::int64_t n, const Beside& beside) {
    progress now{of_, limit_, best_, close_};
    std::int64_t i = 0;
    for (; i + block_columns <= n; i += block_columns) {
      const auto load = [x, i](int k) { return V::load(x + i + k * V::lanes); };
      if (!take_block(load, x, i, block_columns, beside, now)) [[unlikely]] {
        beside.finish(i + block_columns);
        return false;
      }
    }
    if (i < n) {
      if (!take_block(load_some(x, i, n), x, i, n - i, beside, now)) [[unlikely]] {
        beside.finish((n + V::lanes - 1) / V::lanes * V::lanes);
        return false;
      }
    }
    beside.finish((n + V::lanes - 1) / V::lanes * V::lanes);
    best_ = now.best;
    close_ = now.close;
    columns_ = n;
    return true;
  }

  /// Before all: that the largest element will be that one. False if the row needs the plain way.
  bool expect(A largest) { return raise(largest, 0); }

  // Of what was taken.
  [[nodiscard]] SOFTFOLD_INLINE bool has_one_anchor() const { return one_anchor_; }
  [[nodiscard]] SOFTFOLD_INLINE std::int32_t anchor() const { return anchor_; }
  [[nodiscard]] SOFTFOLD_INLINE A largest() const { return best_.reduce_max(); }
  /// Whether total() is exact, in the units of the kept terms.
  [[nodiscard]] SOFTFOLD_INLINE bool is_close() const {
    return one_anchor_ && close_.are_close(columns_);
  }
  [[nodiscard]] SOFTFOLD_INLINE double total() const { return close_.total().reduce_add(); }

  /// False if there is a NaN.
  SOFTFOLD_INLINE bool finish(reproducible_part& part) const {
    part = {};
    part.largest = static_cast<double>(largest());
    part.anchor = anchor_;
    part.has_kept_all = one_anchor_ && !lacks_terms_;
    if constexpr (sizeof(A) == 4) {
      if (one_anchor_ && close_.add_to(columns_, part)) [[likely]] {
        return true;
      }
    }
    return place_words<key_vector, V>::add(
        sums_, static_cast<int>((columns_ + block_columns - 1) / block_columns), part);
  }

 private:
  /// What a block changes and needs, apart from the members, whose address raise() has: this can be
  /// in registers.
  struct progress {
    terms of;
    V limit;
    V best;
    close_sums<A> close;
  };

  /// Terms are computed before it is known whether they have room at the anchor, and once more if
  /// they have not.
  template <class Load, class Beside>
  SOFTFOLD_INLINE bool take_block(const Load& load, const T* x, std::int64_t begin,
                                  std::int64_t count, const Beside& beside, progress& now) {
    const auto block = static_cast<int>(begin / block_columns);
    V least(infinity<A>);
    V sums = sums_of_block(load, x, begin, count, now.of, now.best, least, beside);
    if (V::bits(greater(now.best, now.limit)) != 0) [[unlikely]] {
      if (anchor_ == no_anchor && are_near_zero(now.best)) {
        anchor_ = 0;
        limit_ = V(limit_of(0));
      } else if (raise(now.best.reduce_max(), block)) {
        sums = sums_once_more(x, begin, count);
      } else {
        return false;
      }
      now.limit = limit_;
      now.of = of_;
    }
    if constexpr (may_lack_terms) {
      if (V::bits(greater(now.of.lowest + above_lowest_, least)) != 0) [[unlikely]] {
        lacks_terms_ = lacks_terms_ || has_some_low(x, begin, count);
      }
    }
    sums.store(sums_ + block * V::lanes);
    if constexpr (sizeof(A) == 4) {
      now.close.add(sums, sums_ + block * V::lanes);
    }
    return true;
  }

  template <class Load, class Beside>
  SOFTFOLD_INLINE V sums_of_block(const Load& load, const T* x, std::int64_t begin,
                                  std::int64_t count, const terms& of, V& best, V& least,
                                  const Beside& beside) const {
    V v[block_vectors];
    // Half of the block at a time: with all of it the registers would not do.
    constexpr int half_block = block_vectors / 2;
#pragma GCC unroll 2
    for (int first = 0; first < block_vectors; first += half_block) {
      V half[static_cast<unsigned>(half_block)];
#pragma GCC unroll 4
      for (int k = 0; k < half_block; ++k) {
        const std::int64_t at = (first + k) * V::lanes;
        if (at * static_cast<int>(sizeof(T)) % 64 == 0) {
          prefetch_ahead<to_l2>(x + begin + at);
        }
        half[k] = load(first + k);
        best = max(half[k], best);
        if constexpr (may_lack_terms) {
          least = min(half[k], least);
        }
        half[k] = of.clamped(half[k]);
      }
      of.replace(half);
#pragma GCC unroll 4
      for (int k = 0; k < half_block; ++k) {
        v[first + k] = half[k];
        const std::int64_t at = (first + k) * V::lanes;
        if (count - at >= V::lanes) [[likely]] {
          beside(begin + at, half[k]);
          if constexpr (keep) {
            half[k].store(kept_ + begin + at);
          }
        } else if (count > at) {
          beside(begin + at, half[k]);
          if constexpr (keep) {
            half[k].store(kept_ + begin + at, static_cast<int>(count - at));
          }
        }
      }
    }
    return sums_of_packets(v);
  }
  __attribute__((noinline)) V sums_once_more(const T* x, std::int64_t begin,
                                             std::int64_t count) const {
    V best(-infinity<A>);
    V least(infinity<A>);
    return sums_of_block(load_some(x, begin, begin + count), x, begin, count, of_, best, least,
                         nothing_beside{});
  }
  /// Whether an element above -infinity has no term as it is held, or a subnormal one.
  [[nodiscard]] __attribute__((noinline)) bool has_some_low(const T* x, std::int64_t begin,
                                                            std::int64_t count) const {
    const auto load = load_some(x, begin, begin + count);
    unsigned low = 0;
    for (int k = 0; k < block_vectors; ++k) {
      const V v = load(k);
      low |= V::bits(greater(of_.lowest + above_lowest_, v)) & V::bits(greater(v, V(-infinity<A>)));
    }
    return low != 0;
  }

  /// Of a block's vectors with the columns from `begin` to `end` and -infinity.
  static SOFTFOLD_INLINE auto load_some(const T* x, std::int64_t begin, std::int64_t end) {
    return [x, begin, end](int k) {
      const std::int64_t from = begin + k * V::lanes;
      return end - from >= V::lanes ? V::load(x + from)
             : from < end ? V::load(x + from, static_cast<int>(end - from), V(-infinity<A>))
                          : V(-infinity<A>);
    };
  }

  /// Whether the anchor is 0, which the terms begin with: of most rows.
  SOFTFOLD_INLINE bool are_near_zero(V best) const {
    return V::bits(greater(best, V(limit_of(0)))) == 0 &&
           V::bits(greater(best, V(limit_of(-1)))) != 0;
  }

  /// The anchor for elements up to that one.
  __attribute__((noinline)) bool raise(A largest, int blocks) {
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
      for (int i = 0; i < blocks; ++i) {
        (V::load(sums_ + i * V::lanes) * factor).store(sums_ + i * V::lanes);
      }
      anchor_ = anchor;
      one_anchor_ = false;
    }
    limit_ = V(limit_of(anchor_));
    of_ = terms(scale_, 32.0 * anchor_, held_exponent<A>);
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
  V above_lowest_;  ///< so much above the lowest element are those whose terms are normal
  V best_;
  A* kept_;
  bool one_anchor_ = true;
  bool lacks_terms_ = false;
  close_sums<A> close_;
  std::int64_t columns_ = 0;
  alignas(64) A sums_[static_cast<unsigned>(segment_columns / definition::packet_columns)];
};

template <class T, bool keep, bool to_l2, class Beside>
SOFTFOLD_INLINE bool fold_reproducibly(const void* x, std::int64_t n, double scale, void* kept,
                                       const Beside& beside, reproducible_part* part) {
  using A = arithmetic_t<T>;
  const T* const in = static_cast<const T*>(x);
  A* const to = static_cast<A*>(kept);
  const auto take = [&](auto&& fold) { return fold.take(in, n, beside) && fold.finish(*part); };
  return scale == 1 ? take(reproducible_fold<T, false, keep, to_l2>(A{1}, to))
                    : take(reproducible_fold<T, true, keep, to_l2>(static_cast<A>(scale), to));
}
template <class T, class Beside>
SOFTFOLD_INLINE bool fold_and_keep_reproducibly(const void* x, std::int64_t n, double scale,
                                                kept_row kept, const Beside& beside,
                                                reproducible_part* part) {
  if constexpr (may_stay_out<T>) {
    if (kept.ahead_to_l2) {
      return fold_reproducibly<T, true, true>(x, n, scale, kept.to, beside, part);
    }
  }
  return fold_reproducibly<T, true, false>(x, n, scale, kept.to, beside, part);
}

template <class T>
bool reproducible_fold_kernel(const void* x, std::int64_t n, double scale, kept_row kept,
                              reproducible_part* part) {
  if (kept.to != nullptr) {
    return fold_and_keep_reproducibly<T>(x, n, scale, kept, nothing_beside{}, part);
  }
  return fold_reproducibly<T, false, false>(x, n, scale, nullptr, nothing_beside{}, part);
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
/// The same where the power is 1.
template <class A>
struct probability_of_held_term {
  vec<A> high, low;

  explicit SOFTFOLD_INLINE probability_of_held_term(const reproducible_scaling& s)
      : high(static_cast<A>(s.high)), low(static_cast<A>(s.low)) {}
  SOFTFOLD_INLINE probability_of_held_term(A of_high, A of_low) : high(of_high), low(of_low) {}
  SOFTFOLD_INLINE vec<A> operator()(vec<A> term) const { return fused(term, high, term * low); }
};

/// Log-probabilities of elements.
template <class A, bool scaled>
struct log_probability {
  vec<A> scale, high, low;

  SOFTFOLD_INLINE log_probability(A s, A log_high, A log_low)
      : scale(s), high(log_high), low(log_low) {}
  SOFTFOLD_INLINE vec<A> operator()(vec<A> v) const {
    using V = vec<A>;
    if constexpr (scaled) {
      const V z = v * scale;
      const V lost = V::select(greater(z, V(-infinity<A>)), product_error(v, scale, z), V(A{0}));
      return (z - high) + (lost - low);
    } else {
      return (v - high) + (V(A{0}) - low);
    }
  }
};

template <class T, class Out>
struct reproducible_output {
  using A = arithmetic_t<T>;
  using V = vec<A>;

  template <bool scaled>
  static SOFTFOLD_INLINE void softmax_of(const T* x, std::int64_t n, const reproducible_row& row,
                                         destination y) {
    const reproducible_terms<A, scaled> of(
        static_cast<A>(row.scale), row.n,
        definition::bias_of<A> + definition::row_total<A>::spare_power);
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
    const A* const from = static_cast<const A*>(terms);
    Out* const out = static_cast<Out*>(y.data);
    if (scaling->power == 1) [[likely]] {
      map_elements(from, n, out, y.stream, probability_of_held_term<A>(*scaling));
    } else {
      map_elements(from, n, out, y.stream, probability_of_term<A>(*scaling));
    }
  }

  static bool fold_and_stream(const void* x, std::int64_t n, double scale, kept_row kept,
                              reproducible_part* part, const void* terms,
                              const reproducible_scaling* scaling, void* y) {
    const scaling_beside<T, Out, probability_of_held_term<A>> other(
        static_cast<const T*>(x), static_cast<const A*>(terms), n, static_cast<Out*>(y),
        probability_of_held_term<A>(*scaling));
    return fold_and_keep_reproducibly<T>(x, n, scale, kept, other, part);
  }

  static void log_softmax(const void* x, std::int64_t n, const reproducible_row* row,
                          destination y) {
    const T* const in = static_cast<const T*>(x);
    Out* const out = static_cast<Out*>(y.data);
    const auto scale = static_cast<A>(row->scale);
    const auto high = static_cast<A>(row->log_high);
    const auto low = static_cast<A>(row->log_low);
    if (row->scale == 1) {
      map_elements(in, n, out, y.stream, log_probability<A, false>(scale, high, low));
    } else {
      map_elements(in, n, out, y.stream, log_probability<A, true>(scale, high, low));
    }
  }
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
