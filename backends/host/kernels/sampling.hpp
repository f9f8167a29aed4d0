// SPDX-License-Identifier: Apache-2.0
/// \file
/// Sampling's two looks at a segment: which elements may win the race, and what elements weigh.
#pragma once

#include <backends/host/kernels/fold.hpp>
#include <backends/host/kernels/lanes.hpp>
#include <backends/host/kernels/raw_sum.hpp>

#include <core/sample_state.hpp>
#include <core/sampling.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// The top 16 random bits of columns, in their order: Philox4x32 with 7 rounds, a block of 8
/// columns in each 64-bit lane, of whose words the lower halves count.
class noise_blocks {
  static constexpr int blocks = static_cast<int>(sizeof(key_vector) / 8);

 public:
  static constexpr int columns = 8 * blocks;

  SOFTFOLD_INLINE noise_blocks(const core::sampling::noise& n, std::int64_t column)
      : noise_(n), block_(static_cast<std::uint64_t>(column) / 8) {}

  /// Those of the next columns, at least n, to `bits`, which has room for up to columns - 1 more.
  SOFTFOLD_INLINE void write(std::uint16_t* bits, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += columns, block_ += blocks) {
      write_some(bits + i);
    }
  }

 private:
  static SOFTFOLD_INLINE key_vector all(std::uint64_t x) { return key_vector{} + x; }

  SOFTFOLD_INLINE void write_some(std::uint16_t* bits) const {
    // Blocks of a vector share the upper half of their number: 2^32 is a multiple of the lanes.
    constexpr std::uint64_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7};
    key_vector a;
    __builtin_memcpy(&a, numbers, sizeof a);
    a += all(block_ & 0xffffffffU);
    const core::philox_words counter = core::sampling::counter_of(noise_, block_, 0);
    key_vector b = all(counter.b);
    key_vector c = all(counter.c);
    key_vector d = all(counter.d);
    auto key_low = static_cast<std::uint32_t>(noise_.seed);
    auto key_high = static_cast<std::uint32_t>(noise_.seed >> 32);
#pragma GCC unroll 7
    for (int round = 0; round < 7; ++round) {
      const key_vector first = multiply_low_halves(a, all(core::philox::multiplier_a));
      const key_vector second = multiply_low_halves(c, all(core::philox::multiplier_c));
      a = (second >> 32) ^ b ^ all(key_low);
      b = second;
      c = (first >> 32) ^ d ^ all(key_high);
      d = first;
      key_low += core::philox::step_low;
      key_high += core::philox::step_high;
    }
    const key_vector low = (a & 0xffffffffU) | b << 32;
    const key_vector high = (c & 0xffffffffU) | d << 32;
    if constexpr (blocks == 1) {
      __builtin_memcpy(bits, &low, sizeof low);
      __builtin_memcpy(bits + 4, &high, sizeof high);
    } else {
      key_vector even, odd;
      interleave_lanes<blocks>(low, high, even, odd);
      __builtin_memcpy(bits, &even, sizeof even);
      __builtin_memcpy(bits + columns / 2, &odd, sizeof odd);
    }
  }

  const core::sampling::noise noise_;
  std::uint64_t block_;
};

/// The race along with a fold, or alone: the few elements that may beat the leader run.
template <class T>
class race_beside {
  using A = arithmetic_t<T>;
  using V = vec<A>;

 public:
  static constexpr std::int64_t block = 1024;
  static constexpr bool runs_again = true;

  SOFTFOLD_INLINE race_beside(const T* x, std::int64_t column, race_state& state)
      : x_(x),
        column_(column),
        state_(state),
        noise_{state.seed, state.offset, state.draw},
        blocks_(noise_, column) {}

  /// The next block, whose exponentials are relative to 2^origin.
  SOFTFOLD_INLINE void at_block(std::int64_t begin, std::int64_t n, double origin,
                                bool again) const {
    if (!again) {
      begin_ = begin;
      blocks_.write(bits_, n);
    }
    origin_ = origin;
    set_limit();
  }

  SOFTFOLD_INLINE void operator()(std::int64_t i, V e) const {
    const V b = V::load_integers(bits_ + (i - begin_));
    if (const unsigned hits = V::bits(greater(limit_ * e, b)); hits != 0) [[unlikely]] {
      run(i, e, hits);
    }
  }
  SOFTFOLD_INLINE void finish(std::int64_t) const {}

 private:
  static constexpr double largest = sizeof(A) == 4 ? 0x1p127 : 0x1p1022;
  static constexpr double smallest = sizeof(A) == 4 ? 0x1p-126 : 0x1p-1022;

  void set_limit() const {
    const double exponent = state_.bound_exponent + origin_;
    const double bound = exponent > 1000    ? largest
                         : exponent < -1000 ? smallest
                                            : state_.bound * power_of_two(exponent);
    limit_ = V(static_cast<A>(bound > largest ? largest : bound < smallest ? smallest : bound));
  }

  SOFTFOLD_INLINE static double element(const T* x) {
    if constexpr (sizeof(T) == sizeof(A)) {
      return static_cast<double>(*x);
    } else {
      return static_cast<double>(V::load(x, 1, V(A{0})).first_lane());
    }
  }

  __attribute__((noinline)) void run(std::int64_t i, V exponentials, unsigned hits) const {
    namespace sampling = core::sampling;
    alignas(64) A e[unsigned{V::lanes}];
    exponentials.store(e);
    for (; hits != 0; hits &= hits - 1) {
      const int lane = __builtin_ctz(hits);
      const double x = element(x_ + i + lane);
      const double z = sampling::scaled(state_.scale, x);
      const std::int64_t column = column_ + i + lane;
      if (state_.filters && (!(state_.largest - z <= state_.depth) || x < state_.last ||
                             (x == state_.last && column > state_.last_column))) {
        continue;
      }
      if (!(z > -infinity<double>)) {
        continue;
      }
      const double number = sampling::exponential_number(
          sampling::all_bits(noise_, column, bits_[i - begin_ + lane]));
      const double key = z - sampling::natural_log(number);
      if (key > state_.key || (key == state_.key && column < state_.column)) {
        state_.key = key;
        state_.column = column;
        // Exponentials out of the range where they are accurate are those of a wrong origin.
        const auto own = static_cast<double>(e[lane]);
        if (state_.tightens && own > smallest * 0x1p30 && own < largest * 0x1p-10) {
          state_.bound = 0x1p16 * (1 + 0x1p-9) * number / own;
          state_.bound_exponent = -origin_;
          set_limit();
        }
      }
    }
  }

  const T* x_;
  std::int64_t column_;
  race_state& state_;
  core::sampling::noise noise_;
  mutable noise_blocks blocks_;
  mutable std::int64_t begin_ = 0;
  mutable double origin_ = 0;
  mutable V limit_;
  alignas(64) mutable std::uint16_t bits_[unsigned{block} + 64];
};

template <class T>
struct sampling_kernels {
  using A = arithmetic_t<T>;
  using V = vec<A>;

  static void race(const void* x, std::int64_t n, const frame* f, std::int64_t column,
                   race_state* state) {
    const T* const in = static_cast<const T*>(x);
    const race_beside<T> beside(in, column, *state);
    with_form<A>(*f, 0, 0, [&](const auto& form) {
      constexpr std::int64_t block = race_beside<T>::block;
      for (std::int64_t begin = 0; begin < n; begin += block) {
        const std::int64_t end = n - begin < block ? n : begin + block;
        beside.at_block(begin, end - begin, 0, false);
        std::int64_t i = begin;
        for (; i + V::lanes <= end; i += V::lanes) {
          beside(i, form.exp(V::load(in + i)));
        }
        if (i < end) {
          beside(i, form.exp(V::load(in + i, static_cast<int>(end - i), V(form.nothing))));
        }
      }
    });
  }

  static bool fold_and_race(const void* x, std::int64_t n, double scale, std::int64_t column,
                            segment_state* segment, race_state* state) {
    const T* const in = static_cast<const T*>(x);
    const race_beside<T> beside(in, column, *state);
    A* const none = nullptr;
    return scale == 1 ? fold_segment<false, false, false>(one_row<T>{in}, n, scale, none, none,
                                                          segment, beside)
                      : fold_segment<true, false, false>(one_row<T>{in}, n, scale, none, none,
                                                         segment, beside);
  }

  struct widened {
    const A* x;
    std::int64_t first;
    SOFTFOLD_INLINE A operator()(std::int64_t column) const { return x[column - first]; }
  };

  static void fold_sample(const void* x, std::int64_t n, std::int64_t column, sample_state* state) {
    namespace sampling = core::sampling;
    constexpr std::int64_t most = 512;
    alignas(64) A part[unsigned{most} + V::lanes];
    const T* const in = static_cast<const T*>(x);
    sampling::state_fold<A> fold(*state);
    const sampling::noise noise = sampling::noise_of(*state);
    for (std::int64_t begin = 0; begin < n; begin += most) {
      const std::int64_t count = n - begin < most ? n - begin : most;
      for (std::int64_t i = 0; i < count; i += V::lanes) {
        const std::int64_t left = count - i;
        (left >= V::lanes ? V::load(in + begin + i)
                          : V::load(in + begin + i, static_cast<int>(left), V(A{0})))
            .store(part + i);
      }
      const std::int64_t first = column + begin;
      sampling::add_columns(fold, noise, widened{part, first}, first, first + count, 0, 1);
    }
    *state = fold.finished();
  }

  using W = vec<double>;

  /// core::sampling::weight_of plus 2^52, step by step.
  static SOFTFOLD_INLINE W weight_of(W below) {
    using constants = core::exponential<double>;
    const W magic(constants::round_magic);
    const W minus = W(0) - below;
    const W shifted = fused(minus, W(constants::log2_e), magic);
    const W n = shifted - magic;
    W t = fused(n, W(-constants::ln2_high), minus);
    t = fused(n, W(-constants::ln2_low), t);
    W q(constants::q[0]);
#pragma GCC unroll 9
    for (int i = 1; i < 10; ++i) {
      q = fused(q, t, W(constants::q[i]));
    }
    const W e = fused(fused(q, t, W(1)), t, W(1));
    // round_magic + n has n in its low bits; what is added biases the exponent.
    const W power = low_bits_to_exponent(shifted + W(1023 + 50));
    return fused(e, power, W(0x1p52));
  }

  static void weights(const void* x, std::int64_t n, double scale, double largest, double* weights,
                      double* bins) {
    const T* const in = static_cast<const T*>(x);
    const W s(scale);
    const W top(largest);
    const W most(36);
    const auto take = [&](W v, std::int64_t i) {
      const W below = min(top - v * s, most);  // NaN, of -infinity times 0, becomes `most`
      weight_of(below).store(weights + i);
      fused(below, W(bins_per_unit), W(0x1p52)).store(bins + i);
    };
    if constexpr (sizeof(T) == sizeof(double)) {
      std::int64_t i = 0;
      for (; i + W::lanes <= n; i += W::lanes) {
        take(W::load(in + i), i);
      }
      if (i < n) {
        take(W::load(in + i, static_cast<int>(n - i), W(-infinity<double>)), i);
      }
    } else {
      alignas(64) float part[unsigned{V::lanes}];
      for (std::int64_t i = 0; i < n; i += V::lanes) {
        const std::int64_t left = n - i;
        (left >= V::lanes ? V::load(in + i)
                          : V::load(in + i, static_cast<int>(left), V(-infinity<float>)))
            .store(part);
#pragma GCC unroll 2
        for (int k = 0; k < V::lanes; k += W::lanes) {
          take(W::load(part + k), i + k);
        }
      }
    }
  }
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
