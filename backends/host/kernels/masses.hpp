// SPDX-License-Identifier: Apache-2.0
/// \file
/// What elements weigh in a filter, and sums of that: integers, whatever the order.
#pragma once

#include <backends/host/kernels/elements.hpp>
#include <backends/host/kernels/exponentials.hpp>
#include <backends/host/kernels/fused.hpp>

#include <core/sampling.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// A vector of weights: an integer in the bits of each lane.
class weight_vector {
  using W = vec<double>;

 public:
  typedef std::uint64_t words __attribute__((vector_size(sizeof(W))));

  /// core::sampling::weight_of, step by step. NaN, as of -infinity times 0, weighs nothing.
  static SOFTFOLD_INLINE W of(W below) {
    using constants = core::exponential<double>;
    below = min(below, W(core::sampling::most_below));
    const W minus = W(0) - below;
    const W shifted = fused(minus, W(constants::log2_e), W(constants::round_magic));
    const W n = shifted - W(constants::round_magic);
    W t = fused(n, W(-constants::ln2_high), minus);
    t = fused(n, W(-constants::ln2_low), t);
    W q(constants::q[0]);
#pragma GCC unroll 9
    for (int i = 1; i < 10; ++i) {
      q = fused(q, t, W(constants::q[i]));
    }
    const W e = fused(fused(q, t, W(1)), t, W(1));
    // round_magic + n has n in its low bits; what is added biases the exponent. 2^52 plus an
    // integer has that in its low bits.
    const W power = low_bits_to_exponent(shifted + W(1023 + core::sampling::weight_bits));
    const W rounded = fused(e, power, W(0x1p52));
    return as_vector(bits(rounded) & ((std::uint64_t{1} << 52) - 1));
  }
  static SOFTFOLD_INLINE words bits(W v) {
    words w;
    __builtin_memcpy(&w, &v, sizeof w);
    return w;
  }
  static SOFTFOLD_INLINE W as_vector(words w) {
    W v;
    __builtin_memcpy(&v, &w, sizeof v);
    return v;
  }
  /// What each lane counts where no weights are asked for.
  static SOFTFOLD_INLINE W one() { return as_vector(words{} + 1U); }
  static SOFTFOLD_INLINE std::uint64_t sum(words w) {
    std::uint64_t all = 0;
    for (int i = 0; i < W::lanes; ++i) {
      all += w[i];
    }
    return all;
  }
};

/// Lists the elements in a range.
template <class T>
class range_list {
  using A = arithmetic_t<T>;
  using V = vec<A>;

 public:
  explicit SOFTFOLD_INLINE range_list(const mass_range& range)
      : low_(static_cast<A>(range.low)),
        high_(static_cast<A>(range.high)),
        values_(static_cast<A*>(range.values)),
        columns_(range.columns),
        most_(range.room - V::lanes) {}

  SOFTFOLD_INLINE void take(V v, std::int64_t i) {
    const unsigned inside =
        V::bits(V::either(greater(low_, v), greater(v, high_))) ^ ((1U << unsigned{V::lanes}) - 1);
    if constexpr (compresses) {  // without a branch on what is inside, which nothing foretells
      append(v, inside, static_cast<std::int32_t>(i));
    } else if (inside != 0) {
      append(v, inside, static_cast<std::int32_t>(i));
    }
  }
  /// How many, or -1 if there was no room.
  [[nodiscard]] SOFTFOLD_INLINE std::int64_t listed() const { return listed_; }

 private:
  static constexpr bool compresses = sizeof(A) == sizeof(float) && V::lanes == 16;

  SOFTFOLD_INLINE void append(V v, unsigned inside, std::int32_t first) {
    if (listed_ < 0 || listed_ > most_) [[unlikely]] {
      listed_ = -1;
      return;
    }
    if constexpr (compresses) {
      listed_ += V::compress(static_cast<typename V::mask>(inside), v, first, values_ + listed_,
                             columns_ + listed_);
    } else {
      alignas(64) A own[unsigned{V::lanes}];
      v.store(own);
      for (; inside != 0; inside &= inside - 1) {
        const int lane = __builtin_ctz(inside);
        values_[listed_] = own[lane];
        columns_[listed_++] = first + lane;
      }
    }
  }

  V low_;
  V high_;
  A* values_;
  std::int32_t* columns_;
  std::int64_t most_;
  std::int64_t listed_ = 0;
};

template <class T>
struct mass_kernels {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  using W = vec<double>;
  using words = weight_vector::words;

  static SOFTFOLD_INLINE V load(const T* x, std::int64_t i, std::int64_t n) {
    const std::int64_t left = n - i;
    return left >= V::lanes ? V::load(x + i)
                            : V::load(x + i, static_cast<int>(left), V(-infinity<A>));
  }

  static void weigh(const void* x, std::int64_t n, double scale, double largest, double lowest,
                    void* values, std::uint64_t* weights) {
    auto* const to = static_cast<A*>(values);
    for (std::int64_t i = 0; i < n; i += V::lanes) {
      const V v = load(static_cast<const T*>(x), i, n);
      const V kept = V::select(greater(V(static_cast<A>(lowest)), v), V(-infinity<A>), v);
      kept.store(to + i);
      for (int k = 0; k < V::lanes; k += W::lanes) {
        const W own = weight_vector::of(W(largest) - W::load(to + i + k) * W(scale));
        __builtin_memcpy(weights + i + k, &own, sizeof own);
      }
    }
  }

  static void measure(const void* x, std::int64_t n, const mass_range* range, mass_sums* sums) {
    *sums = {};
    range->weighs ? measure_as<true>(static_cast<const T*>(x), n, *range, *sums)
                  : measure_as<false>(static_cast<const T*>(x), n, *range, *sums);
  }

  template <bool weighs>
  static SOFTFOLD_INLINE void measure_as(const T* x, std::int64_t n, const mass_range& range,
                                         mass_sums& sums) {
    const V lowest(static_cast<A>(range.lowest));
    const W scale(range.scale);
    const W largest(range.largest);
    const W above_this(range.high);
    words whole{};
    words above{};
    range_list<T> list(range);
    alignas(64) A part[unsigned{V::lanes}];
    for (std::int64_t i = 0; i < n; i += V::lanes) {
      prefetch_ahead(x + i);
      V v = load(x, i, n);
      v = V::select(greater(lowest, v), V(-infinity<A>), v);
      v.store(part);
#pragma GCC unroll 2
      for (int k = 0; k < V::lanes; k += W::lanes) {
        const W own = W::load(part + k);
        const W weight =
            weighs ? weight_vector::of(largest - own * scale)
                   : W::select(equal(own, W(-infinity<double>)), W(0), weight_vector::one());
        whole += weight_vector::bits(weight);
        above += weight_vector::bits(W::select(greater(own, above_this), weight, W(0)));
      }
      list.take(v, i);
    }
    sums.whole = weight_vector::sum(whole);
    sums.above = weight_vector::sum(above);
    sums.listed = list.listed();
  }

  static void sum_above(const void* values, const std::uint64_t* weights, std::int64_t n,
                        double threshold, mass_sums* sums) {
    const auto* const x = static_cast<const A*>(values);
    words above{};
    words count{};
    for (std::int64_t i = 0; i < n; i += W::lanes) {
      W weight;
      __builtin_memcpy(&weight, weights + i, sizeof weight);
      const auto over = greater(W::load(x + i), W(threshold));
      above += weight_vector::bits(W::select(over, weight, W(0)));
      count += weight_vector::bits(W::select(over, weight_vector::one(), W(0)));
    }
    *sums = {};
    sums->above = weight_vector::sum(above);
    sums->count_above = static_cast<std::int64_t>(weight_vector::sum(count));
  }

  static double about_above(const void* x, std::int64_t n, const frame* f, const mass_range* range,
                            std::int64_t* listed) {
    constexpr std::int64_t block = 1024;
    const T* const in = static_cast<const T*>(x);
    const V high(static_cast<A>(range->high));
    range_list<T> list(*range);
    double total = 0;
    with_form<A>(*f, 0, 0, [&](const auto& form) {
      for (std::int64_t begin = 0; begin < n; begin += block) {
        const std::int64_t end = n - begin < block ? n : begin + block;
        V sums[2] = {V(A{0}), V(A{0})};
        for (std::int64_t i = begin; i < end; i += 2 * V::lanes) {
#pragma GCC unroll 2
          for (int k = 0; k < 2; ++k) {
            const std::int64_t at = i + k * V::lanes;
            if (at < end) {
              prefetch_ahead(in + at);
              const V v = load(in, at, end);
              sums[k] = sums[k] + V::select(greater(v, high), form.exp(v), V(A{0}));
              list.take(v, at);
            }
          }
        }
        total += static_cast<double>((sums[0] + sums[1]).reduce_add());
      }
    });
    *listed = list.listed();
    return total;
  }
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
