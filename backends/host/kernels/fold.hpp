// SPDX-License-Identifier: Apache-2.0
/// \file
/// The first pass over a row: the power fold of a segment, and the careful look at a row that
/// the power form cannot take.
///
/// Block by block, each vector to its exponential and to the block's maximum at once. The sum is
/// relative to 2^origin, an exponent that is fixed by the first block and moves only when a later
/// block outgrows it, so that as a rule no sum is rescaled (extended exponents: Dukhan and
/// Ablavatski, arXiv 2001.04438). A block's exponentials are computed before its maximum is known;
/// if that moves the origin, they are computed once more.
#pragma once

#include <backends/host/kernels/elements.hpp>
#include <backends/host/kernels/exponentials.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

template <class A>
inline constexpr std::int64_t block_columns = 4096 / static_cast<std::int64_t>(sizeof(A));

/// Scalar rounding towards -infinity of small numbers, without the math library.
SOFTFOLD_INLINE double floor_of(double x) {
  const auto i = static_cast<double>(static_cast<std::int64_t>(x));
  return i > x ? i - 1 : i;
}

SOFTFOLD_INLINE void add(compensated_sum& sum, double term) {
  const double total = sum.value + term;
  sum.lost += sum.value >= term ? (sum.value - total) + term : (term - total) + sum.value;
  sum.value = total;
}

/// 2^n for -1022 <= n <= 1023, else 0 below; n is never above.
SOFTFOLD_INLINE double power_of_two(double n) {
  if (n < -1022) {
    return 0;
  }
  return __builtin_bit_cast(double, static_cast<std::uint64_t>(static_cast<std::int64_t>(n) + 1023)
                                        << 52);
}

/// The origin of a block whose largest element has that exponent.
template <class A>
SOFTFOLD_INLINE double origin_for(double exponent) {
  constexpr double quantum = power_limits<A>::quantum;
  return quantum * floor_of((exponent - origin_margin) * (1 / quantum));
}

template <class A>
struct block_state {
  A max;  ///< ignoring NaN
  double sum;
};

/// One pass over a block of a source: its maximum, and the sum of f.exp(x[i]) in four accumulators
/// a lane. Writes the exponentials to `kept` if `keep`, the group maxima to `groups` if `group`.
/// What comes later is asked for along the way. beside(i, exponentials) is called before kept[i]
/// and the rest of its vector are written.
template <bool keep, bool group, class Source, class F, class Beside>
SOFTFOLD_INLINE block_state<typename Source::A> fold_block(const Source& from, std::int64_t n,
                                                           const F& f, typename Source::A* kept,
                                                           typename Source::A* groups,
                                                           const Beside& beside) {
  using A = typename Source::A;
  using V = typename Source::V;
  const V none(-infinity<A>);
  V best[2] = {none, none};
  V sums[4] = {V(A{0}), V(A{0}), V(A{0}), V(A{0})};
  const auto take = [&](V v, std::int64_t i, int slot, V& largest) {
    from.prefetch_ahead_of(i);
    largest = max(v, largest);
    const V e = f.exp(v);
    beside(i, e);
    if constexpr (keep) {
      if (n - i >= V::lanes) {
        e.store(kept + i);
      } else {
        e.store(kept + i, static_cast<int>(n - i));
      }
    }
    sums[slot] = sums[slot] + e;
  };
  constexpr int vectors = group ? group_vectors : 4;
  std::int64_t i = 0;
  for (; i + vectors * V::lanes <= n; i += vectors * V::lanes) {
    V largest[2] = {none, none};
#pragma GCC unroll 8
    for (int k = 0; k < vectors; ++k) {
      take(from.load(i + k * V::lanes), i + k * V::lanes, k % 4,
           group ? largest[k % 2] : best[k % 2]);
    }
    if constexpr (group) {
      const V of_group = max(largest[0], largest[1]);
      of_group.store(groups);
      groups += V::lanes;
      best[0] = max(of_group, best[0]);
    }
  }
  if (i < n) {
    V largest = none;
#pragma GCC unroll 8
    for (int k = 0; k < vectors; ++k, i += V::lanes) {
      if (n - i >= V::lanes) {
        take(from.load(i), i, k % 4, largest);
      } else if (i < n) {
        take(from.load(i, static_cast<int>(n - i), f.nothing), i, k % 4, largest);
      }
    }
    if constexpr (group) {
      largest.store(groups);
    }
    best[1] = max(largest, best[1]);
  }
  const V sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return {max(best[0], best[1]).reduce_max(), static_cast<double>(sum.reduce_add())};
}

/// What is done along with a fold, vector by vector: as a rule nothing. Called with 0, lanes,
/// 2 lanes, ... below n and the exponentials there, then finish(the next).
struct nothing_beside {
  template <class V>
  SOFTFOLD_INLINE void operator()(std::int64_t, V) const {}
  SOFTFOLD_INLINE void finish(std::int64_t) const {}
};

/// e[i] * factor
template <class A>
struct by_factor {
  vec<A> factor;
  explicit SOFTFOLD_INLINE by_factor(double f) : factor(static_cast<A>(f)) {}
  SOFTFOLD_INLINE vec<A> operator()(vec<A> e) const { return e * factor; }
};

/// Stores y[i] = scale(e[i]) along with a fold of x, as a rule past the caches: memory takes the
/// stores in while the processor computes.
template <class T, class Out, class Scale = by_factor<arithmetic_t<T>>, bool past_caches = true,
          class E = arithmetic_t<T>>
class scaling_beside {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  static constexpr std::uintptr_t vector_bytes = sizeof(Out) * V::lanes;
  static constexpr std::uintptr_t page_bytes = 4096;
  static constexpr std::uintptr_t near_bytes = 1024;

 public:
  /// Stores fall behind the fold by `lag` elements or more, whole vectors.
  SOFTFOLD_INLINE scaling_beside(const T* x, const E* e, std::int64_t n, Out* y, const Scale& scale,
                                 std::int64_t lag = 0)
      : e_(e), n_(n), y_(y), scale_(scale), lag_(lag) {
    const auto to = reinterpret_cast<std::uintptr_t>(y);
    const std::uintptr_t head_bytes =
        past_caches ? (vector_bytes - to % vector_bytes) % vector_bytes : 0;
    head_ = static_cast<std::int64_t>(head_bytes / sizeof(Out));
    if (head_ >= n) {
      head_ = n;
      store_some(0, static_cast<int>(n));
    } else if (head_ != 0) {
      store_head(scale_(V::load(e, static_cast<int>(head_), V(A{0}))), y, head_);
    }
    // A load waits for an earlier streamed store, which takes its time, if their addresses agree
    // in all but the page: stores little ahead of the loads fall behind them instead.
    const std::uintptr_t ahead =
        (to + head_bytes - reinterpret_cast<std::uintptr_t>(x)) % page_bytes;
    if (sizeof(Out) == sizeof(T) && ahead < near_bytes) {
      const auto of_ahead = static_cast<std::int64_t>((ahead + vector_bytes - 1) / vector_bytes);
      lag_ = lag > of_ahead * V::lanes ? lag : of_ahead * V::lanes;
    }
  }

  SOFTFOLD_INLINE void operator()(std::int64_t i, V) const {
    i -= lag_;
    if (i < 0) {
      return;
    }
    i += head_;
    if (n_ - i >= V::lanes) [[likely]] {
      const V result = scale_(V::load(e_ + i));
      past_caches ? result.stream(y_ + i) : result.store(y_ + i);
    } else if (i < n_) {
      store_some(i, static_cast<int>(n_ - i));
    }
  }

  SOFTFOLD_INLINE void finish(std::int64_t i) const {
    for (; i - lag_ < n_; i += V::lanes) {
      (*this)(i, V(A{0}));
    }
  }

 private:
  SOFTFOLD_INLINE void store_some(std::int64_t i, int count) const {
    scale_(V::load(e_ + i, count, V(A{0}))).store(y_ + i, count);
  }

  const E* e_;
  std::int64_t n_;
  Out* y_;
  Scale scale_;
  std::int64_t head_;  ///< elements before the first that a vector can be streamed to
  std::int64_t lag_;
};

template <bool scaled, bool keep, bool group, class Source, class Beside = nothing_beside>
bool fold_segment(const Source& x, std::int64_t n, double scale, typename Source::A* kept,
                  typename Source::A* groups, segment_state* state, const Beside& beside = {}) {
  using A = typename Source::A;
  using V = typename Source::V;
  constexpr std::int64_t block_n = block_columns<A>;
  constexpr double log2_e = 1.4426950408889634;
  using limits = power_limits<A>;

  double largest = -static_cast<double>(infinity<A>);
  double origin = -limits::quantum;
  if (n >= V::lanes) {  // that of the first block, as far as its first vector tells
    const double exponent = static_cast<double>(x.load(0).reduce_max()) * scale * log2_e;
    if (exponent > -limits::far && exponent < limits::far) {
      origin = origin_for<A>(exponent);
    }
  }
  bool empty = true;
  bool one_origin = true;
  compensated_sum total;
  for (std::int64_t begin = 0; begin < n; begin += block_n) {
    const Source from = x.from(begin);
    const std::int64_t count = n - begin < block_n ? n - begin : block_n;
    A* const to = keep ? kept + begin : nullptr;
    frame f;
    f.scale = scale;
    f.origin = origin;
    const auto beside_here = [&](std::int64_t i, V e) { beside(begin + i, e); };
    block_state<A> block =
        fold_block<keep, group>(from, count, power_form<A, scaled>(f), to, groups, beside_here);
    if constexpr (group) {
      groups += block_n / group_vectors;
    }
    const auto block_max = static_cast<double>(block.max);
    const double exponent = block_max * scale * log2_e;
    const bool far = !(exponent < limits::far) || (empty && !(exponent > -limits::far) &&
                                                   block_max > -static_cast<double>(infinity<A>));
    if (far) {
      beside.finish(begin + (count + V::lanes - 1) / V::lanes * V::lanes);
      return false;
    }
    if (empty ? exponent > -limits::far : exponent - origin > limits::quantum + origin_margin + 1) {
      f.origin = origin_for<A>(exponent);
      if (!empty) {
        const double ratio = power_of_two(origin - f.origin);
        total.value *= ratio;
        total.lost *= ratio;
      }
      one_origin = empty && begin == 0;
      empty = false;
      if (f.origin != origin) [[unlikely]] {
        origin = f.origin;
        A* const none = nullptr;
        block = fold_block<keep, false>(from, count, power_form<A, scaled>(f), to, none,
                                        nothing_beside{});
      }
    }
    largest = block_max > largest ? block_max : largest;
    add(total, block.sum);
  }
  beside.finish((n + V::lanes - 1) / V::lanes * V::lanes);
  state->max = largest;
  state->origin = origin;
  state->sum = total.total();
  state->one_origin = one_origin;
  return state->sum < static_cast<double>(infinity<float>);
}

template <bool scaled, class T, class Beside>
SOFTFOLD_INLINE bool fold_and_keep(const T* x, std::int64_t n, double scale, kept_row kept,
                                   segment_state* state, const Beside& beside) {
  auto* const to = static_cast<arithmetic_t<T>*>(kept.to);
  if constexpr (may_stay_out<T>) {
    if (kept.ahead_to_l2) {
      return fold_segment<scaled, true, false>(one_row<T, true>{x}, n, scale, to, nullptr, state,
                                               beside);
    }
  }
  return fold_segment<scaled, true, false>(one_row<T>{x}, n, scale, to, nullptr, state, beside);
}

template <class T>
struct fold_kernels {
  using A = arithmetic_t<T>;

  template <bool scaled>
  static bool fold_scaled(const T* x, std::int64_t n, double scale, kept_row kept, A* groups,
                          segment_state* state) {
    if (groups != nullptr) {
      return fold_segment<scaled, false, true>(one_row<T>{x}, n, scale, nullptr, groups, state);
    }
    if (kept.to != nullptr) {
      return fold_and_keep<scaled>(x, n, scale, kept, state, nothing_beside{});
    }
    return fold_segment<scaled, false, false>(one_row<T>{x}, n, scale, nullptr, nullptr, state);
  }

  static bool fold(const void* x, std::int64_t n, double scale, kept_row kept, void* groups,
                   segment_state* state) {
    const T* in = static_cast<const T*>(x);
    return scale == 1 ? fold_scaled<false>(in, n, scale, kept, static_cast<A*>(groups), state)
                      : fold_scaled<true>(in, n, scale, kept, static_cast<A*>(groups), state);
  }

  static void extremes(const void* x, std::int64_t n, row_extremes* result) {
    using V = vec<A>;
    V largest(-infinity<A>);
    V smallest(infinity<A>);
    typename V::mask nan = V::none();
    const T* in = static_cast<const T*>(x);
    for (std::int64_t i = 0; i < n; i += V::lanes) {
      if (n - i >= V::lanes) {
        const V v = V::load(in + i);
        largest = max(v, largest);
        smallest = min(v, smallest);
        nan = V::either(nan, unordered(v, v));
      } else {
        const V low = V::load(in + i, static_cast<int>(n - i), V(-infinity<A>));
        const V high = V::load(in + i, static_cast<int>(n - i), V(infinity<A>));
        largest = max(low, largest);
        smallest = min(high, smallest);
        nan = V::either(nan, unordered(low, low));
      }
    }
    result->max = static_cast<double>(largest.reduce_max());
    result->min = static_cast<double>(smallest.reduce_min());
    result->has_nan = V::bits(nan) != 0;
  }

  static double sum(const void* x, std::int64_t n, const frame* f) {
    compensated_sum total;
    with_form<A>(*f, 0, 0, [&](const auto& e) {
      for (std::int64_t begin = 0; begin < n; begin += block_columns<A>) {
        const std::int64_t count = n - begin < block_columns<A> ? n - begin : block_columns<A>;
        const one_row<T> part{static_cast<const T*>(x) + begin};
        A* const none = nullptr;
        add(total, fold_block<false, false>(part, count, e, none, none, nothing_beside{}).sum);
      }
    });
    return total.total();
  }
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
