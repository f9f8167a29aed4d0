// SPDX-License-Identifier: Apache-2.0
/// \file
/// Top-k's first and last look at a row: group maxima, and the elements that pass a threshold.
#pragma once

#include "fold.hpp"

namespace softfold::cpu_backend {
namespace {

template <class T>
struct select_kernels {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  static constexpr std::int64_t group_columns = group_vectors * V::lanes;

  static bool group_maxima(const void* x, std::int64_t n, void* groups) {
    typename V::mask nan = V::none();
    block_maximum<false, true>(static_cast<const T*>(x), n, static_cast<A*>(nullptr),
                               static_cast<A*>(groups), &nan);
    return V::bits(nan) == 0;
  }

  static void take(V v, unsigned lanes, std::int64_t column, candidates* found) {
    alignas(64) A elements[V::lanes];
    v.store(elements);
    A* values = static_cast<A*>(found->values);
    for (; lanes != 0; lanes &= lanes - 1) {
      const int lane = __builtin_ctz(lanes);
      values[found->count] = elements[lane];
      found->columns[found->count] = column + lane;
      ++found->count;
    }
  }

  static void filter(const void* x, std::int64_t n, const void* groups, double threshold,
                     std::int64_t column, candidates* found) {
    const T* in = static_cast<const T*>(x);
    const A* group = static_cast<const A*>(groups);
    const V limit(static_cast<A>(threshold));
    const auto passes = [&](V v) { return V::bits(greater(v, limit)); };
    const auto equals = [&](V v) { return V::bits(equal(v, limit)); };
    for (std::int64_t begin = 0; begin < n; begin += group_columns, group += V::lanes) {
      const V largest = V::load(group);
      const bool wanted = passes(largest) != 0 || (found->equal_left > 0 && equals(largest) != 0);
      if (!wanted) {
        continue;
      }
      for (std::int64_t i = begin; i < begin + group_columns && i < n; i += V::lanes) {
        const int count = n - i < V::lanes ? static_cast<int>(n - i) : V::lanes;
        const V v = count == V::lanes ? V::load(in + i) : V::load(in + i, count, V(A{0}));
        const unsigned inside = count == 32 ? ~0u : (1u << count) - 1u;
        const unsigned above = passes(v) & inside;
        if (above != 0) {
          take(v, above, column + i, found);
        }
        unsigned same = equals(v) & inside;
        if (same != 0 && found->equal_left > 0) {
          // The lowest columns first: drop the lanes that are too many.
          while (__builtin_popcount(same) > found->equal_left) {
            same &= ~(1u << (31 - __builtin_clz(same)));
          }
          found->equal_left -= __builtin_popcount(same);
          take(v, same, column + i, found);
        }
      }
    }
  }
};

}  // namespace
}  // namespace softfold::cpu_backend
