// SPDX-License-Identifier: Apache-2.0
/// \file
/// The first pass over a row: the power fold of a segment, and the careful look at a row that
/// the power form cannot take.
///
/// Block by block: the maximum of a block while it comes from memory, then the exponentials of
/// the block from the first-level cache. The sum is relative to 2^origin, an exponent that is
/// fixed by the first block and moves only when a later block outgrows it, so that as a rule no
/// sum is rescaled (extended exponents: Dukhan and Ablavatski, arXiv 2001.04438).
#pragma once

#include "elements.hpp"
#include "exponentials.hpp"

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

/// One pass over a block of x: its maximum, ignoring NaN. Writes the elements as A to `block`
/// if that is not null, the group maxima to `groups` if that is not null.
template <bool widen, bool group, class T>
SOFTFOLD_INLINE arithmetic_t<T> block_maximum(const T* x, std::int64_t n, arithmetic_t<T>* block,
                                              arithmetic_t<T>* groups,
                                              typename vec<arithmetic_t<T>>::mask* nan) {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  constexpr std::int64_t group_columns = group_vectors * V::lanes;
  const V none(-infinity<A>);
  V best[2] = {none, none};
  const auto take = [&](V v, std::int64_t i, V& largest) {
    if constexpr (widen) {
      v.store(block + i);
    }
    largest = max(v, largest);
    if (nan != nullptr) {  // no sum_of follows, which would ask for the next block
      prefetch_ahead(x + i);
      *nan = V::either(*nan, unordered(v, v));
    }
  };
  std::int64_t i = 0;
  for (; i + group_columns <= n; i += group_columns) {
    V largest = none;
    V other = none;
#pragma GCC unroll 8
    for (int k = 0; k < group_vectors; k += 2) {
      take(V::load(x + i + k * V::lanes), i + k * V::lanes, largest);
      take(V::load(x + i + (k + 1) * V::lanes), i + (k + 1) * V::lanes, other);
    }
    largest = max(largest, other);
    if constexpr (group) {
      largest.store(groups);
      groups += V::lanes;
    }
    best[0] = max(largest, best[0]);
  }
  if (i < n) {
    V largest = none;
    for (; i + V::lanes <= n; i += V::lanes) {
      take(V::load(x + i), i, largest);
    }
    if (i < n) {
      // The rest of the widened block is never read.
      take(V::load(x + i, static_cast<int>(n - i), none), i, largest);
    }
    if constexpr (group) {
      largest.store(groups);
    }
    best[1] = largest;
  }
  return max(best[0], best[1]).reduce_max();
}

/// What is done along with a fold, vector by vector: as a rule nothing. Called with 0, lanes,
/// 2 lanes, ... below n, then finish(the next).
struct nothing_beside {
  SOFTFOLD_INLINE void operator()(std::int64_t) const {}
  SOFTFOLD_INLINE void finish(std::int64_t) const {}
};

/// Streams y[i] = e[i] * factor along with a fold of x: memory takes the stores in while the
/// processor computes.
template <class T, class Out>
class scaling_beside {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  static constexpr std::uintptr_t vector_bytes = sizeof(Out) * V::lanes;
  static constexpr std::uintptr_t page_bytes = 4096;
  static constexpr std::uintptr_t near_bytes = 1024;

 public:
  SOFTFOLD_INLINE scaling_beside(const T* x, const A* e, std::int64_t n, Out* y, double factor)
      : e_(e), n_(n), y_(y), factor_(static_cast<A>(factor)) {
    const auto to = reinterpret_cast<std::uintptr_t>(y);
    const std::uintptr_t head_bytes = (vector_bytes - to % vector_bytes) % vector_bytes;
    head_ = static_cast<std::int64_t>(head_bytes / sizeof(Out));
    head_ = head_ < n ? head_ : n;
    if (head_ != 0) {
      store_some(0, static_cast<int>(head_));
    }
    // A load waits for an earlier streamed store, which takes its time, if their addresses agree
    // in all but the page: stores little ahead of the loads fall behind them instead.
    const std::uintptr_t ahead =
        (to + head_bytes - reinterpret_cast<std::uintptr_t>(x)) % page_bytes;
    if (sizeof(Out) == sizeof(T) && ahead < near_bytes) {
      lag_ = static_cast<std::int64_t>((ahead + vector_bytes - 1) / vector_bytes) * V::lanes;
    }
  }

  SOFTFOLD_INLINE void operator()(std::int64_t i) const {
    i -= lag_;
    if (i < 0) {
      return;
    }
    i += head_;
    if (n_ - i >= V::lanes) [[likely]] {
      (V::load(e_ + i) * factor_).stream(y_ + i);
    } else if (i < n_) {
      store_some(i, static_cast<int>(n_ - i));
    }
  }

  SOFTFOLD_INLINE void finish(std::int64_t i) const {
    for (; i - lag_ < n_; i += V::lanes) {
      (*this)(i);
    }
  }

 private:
  SOFTFOLD_INLINE void store_some(std::int64_t i, int count) const {
    (V::load(e_ + i, count, V(A{0})) * factor_).store(y_ + i, count);
  }

  const A* e_;
  std::int64_t n_;
  Out* y_;
  V factor_;
  std::int64_t head_;  ///< elements before the first that a vector can be streamed to
  std::int64_t lag_ = 0;
};

template <class T, bool scaled, bool keep, bool group, class Beside = nothing_beside>
bool fold_segment(const T* x, std::int64_t n, double scale, arithmetic_t<T>* kept,
                  arithmetic_t<T>* groups, segment_state* state, const Beside& beside = {}) {
  using A = arithmetic_t<T>;
  constexpr bool widen = sizeof(T) != sizeof(A);
  constexpr std::int64_t block_n = block_columns<A>;
  constexpr double log2_e = 1.4426950408889634;
  using limits = power_limits<A>;
  alignas(64) A block[static_cast<std::size_t>(widen ? block_n : 1)];

  double largest = -static_cast<double>(infinity<A>);
  double origin = 0;
  bool empty = true;
  bool one_origin = true;
  compensated_sum total;
  for (std::int64_t begin = 0; begin < n; begin += block_n) {
    const std::int64_t count = n - begin < block_n ? n - begin : block_n;
    const auto block_max =
        static_cast<double>(block_maximum<widen, group>(x + begin, count, block, groups, nullptr));
    if constexpr (group) {
      groups += block_n / group_vectors;
    }
    const double exponent = block_max * scale * log2_e;
    if (!(exponent < limits::far)) {
      beside.finish(begin);
      return false;
    }
    if (empty ? exponent > -limits::far : exponent - origin > limits::quantum + origin_margin + 1) {
      const double next =
          limits::quantum * floor_of((exponent - origin_margin) * (1 / limits::quantum));
      if (!empty) {
        const double ratio = power_of_two(origin - next);
        total.value *= ratio;
        total.lost *= ratio;
        one_origin = false;
      } else if (begin != 0) {
        one_origin = false;
      }
      origin = next;
      empty = false;
    } else if (empty && block_max > -static_cast<double>(infinity<A>)) {
      beside.finish(begin);
      return false;
    }
    largest = block_max > largest ? block_max : largest;
    frame f;
    f.scale = scale;
    f.origin = origin;
    const power_form<A, scaled> exponentials(f);
    A* const to = keep ? kept + begin : nullptr;
    const auto along = [&](std::int64_t i) { beside(begin + i); };
    if constexpr (widen) {
      add(total,
          sum_of<keep>(static_cast<const A*>(block), count, x + begin, exponentials, to, along));
    } else {
      add(total, sum_of<keep>(x + begin, count, x + begin, exponentials, to, along));
    }
  }
  beside.finish((n + vec<A>::lanes - 1) / vec<A>::lanes * vec<A>::lanes);
  state->max = largest;
  state->origin = origin;
  state->sum = total.value + total.lost;
  state->one_origin = one_origin;
  return state->sum < static_cast<double>(infinity<float>);
}

template <class T>
struct fold_kernels {
  using A = arithmetic_t<T>;

  template <bool scaled>
  static bool fold_scaled(const T* x, std::int64_t n, double scale, A* kept, A* groups,
                          segment_state* state) {
    if (groups != nullptr) {
      return fold_segment<T, scaled, false, true>(x, n, scale, nullptr, groups, state);
    }
    if (kept != nullptr) {
      return fold_segment<T, scaled, true, false>(x, n, scale, kept, nullptr, state);
    }
    return fold_segment<T, scaled, false, false>(x, n, scale, nullptr, nullptr, state);
  }

  static bool fold(const void* x, std::int64_t n, double scale, void* kept, void* groups,
                   segment_state* state) {
    const T* in = static_cast<const T*>(x);
    return scale == 1 ? fold_scaled<false>(in, n, scale, static_cast<A*>(kept),
                                           static_cast<A*>(groups), state)
                      : fold_scaled<true>(in, n, scale, static_cast<A*>(kept),
                                          static_cast<A*>(groups), state);
  }

  static void scan(const void* x, std::int64_t n, row_scan* result) {
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
        const T* const part = static_cast<const T*>(x) + begin;
        add(total, sum_of<false>(part, count, part, e, static_cast<A*>(nullptr), nothing_beside{}));
      }
    });
    return total.value + total.lost;
  }
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
