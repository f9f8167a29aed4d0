// SPDX-License-Identifier: Apache-2.0
/// \file
/// The states of parts of rows that are sampled.
#pragma once

#include <backends/host/kernels/table.hpp>

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
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
