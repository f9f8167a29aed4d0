// SPDX-License-Identifier: Apache-2.0
/// \file
/// What elements weigh in a filter, and the states of parts of rows.
#pragma once

#include <backends/host/kernels/raw_sum.hpp>

#include <core/sample_state.hpp>
#include <core/sampling.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

template <class T>
struct sampling_kernels {
  using A = arithmetic_t<T>;
  using V = vec<A>;

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
