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
