// SPDX-License-Identifier: Apache-2.0
/// \file
/// Prefix sums of a segment's exponentials, and their logarithms: sums in the lanes of a vector by
/// steps of 1, 2, 4, ... lanes, those of the vectors before it as one number of double precision.
#pragma once

#include <backends/host/kernels/elements.hpp>
#include <backends/host/kernels/exponentials.hpp>
#include <backends/host/kernels/fold.hpp>
#include <backends/host/kernels/lanes.hpp>
#include <backends/host/kernels/vector_logarithm.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

template <class V>
SOFTFOLD_INLINE V reversed(V v) {
  V r;
  exchange_lanes<V::lanes, V::lanes - 1>(v.v, r.v);
  return r;
}

/// Sums of a vector's first lanes, given those of `by` lanes each.
template <int by, class V>
SOFTFOLD_INLINE V prefix_sums(V v) {
  if constexpr (by >= V::lanes) {
    return v;
  } else {
    const V zero(0);
    V moved;
    follow_lanes<V::lanes, by>(zero.v, v.v, moved.v);
    return prefix_sums<2 * by>(v + moved);
  }
}

/// The elements of a segment in the order of the scan, and the places of their results.
template <class T, class Out, bool reverse>
struct scan_order {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  const T* x;
  Out* y;
  std::int64_t n;

  SOFTFOLD_INLINE V load(std::int64_t i) const {
    if constexpr (reverse) {
      return reversed(V::load(x + n - i - V::lanes));
    } else {
      return V::load(x + i);
    }
  }
  SOFTFOLD_INLINE V load(std::int64_t i, int count, A rest) const {
    if constexpr (reverse) {
      T turned[static_cast<unsigned>(V::lanes)];
      for (int k = 0; k < count; ++k) {
        turned[k] = x[n - 1 - i - k];
      }
      return V::load(turned, count, V(rest));
    } else {
      return V::load(x + i, count, V(rest));
    }
  }
  SOFTFOLD_INLINE void store(std::int64_t i, V v) const {
    if constexpr (reverse) {
      reversed(v).store(y + n - i - V::lanes);
    } else {
      v.store(y + i);
    }
  }
  SOFTFOLD_INLINE void store(std::int64_t i, V v, int count) const {
    if constexpr (reverse) {
      Out turned[static_cast<unsigned>(V::lanes)];
      v.store(turned);
      for (int k = 0; k < count; ++k) {
        y[n - 1 - i - k] = turned[k];
      }
    } else {
      v.store(y + i, count);
    }
  }
};

template <class T, class Out, bool scaled, bool reverse>
bool scan_in_order(const scan_order<T, Out, reverse>& at, const scan_segment& segment) {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  /// Relative to the origin: elements that are flushed are less than 2^-66 of a larger sum.
  constexpr double least_sum = 0x1p-60;
  const std::int64_t n = at.n;
  frame f;
  f.scale = segment.scale;
  f.origin = segment.origin;
  const power_form<A, scaled> form(f);
  const V zero(A{0});
  const V none(-infinity<A>);
  V before(static_cast<A>(segment.first));
  compensated_sum total{segment.before, 0};
  bool any = segment.before >= least_sum;
  for (std::int64_t i = 0; i < n; i += V::lanes) {
    const std::int64_t left = n - i;
    const V x = left >= V::lanes ? at.load(i) : at.load(i, static_cast<int>(left), form.nothing);
    const V sums = prefix_sums<1>(form.exp(x));
    const double sum = total.total();
    const V all = sums + V(static_cast<A>(sum));
    if (!any) [[unlikely]] {
      const unsigned inside = left >= V::lanes ? ~0U : (1U << left) - 1U;
      const unsigned elements = V::bits(greater(x, none)) & inside;
      // The lanes whose sums have something in them: all, or from the first element on.
      const unsigned sums_of_some =
          sum != 0 ? inside : inside & ~((elements & (~elements + 1U)) - 1U);
      const unsigned small = V::bits(greater(V(static_cast<A>(least_sum)), all));
      if ((sum != 0 || elements != 0) && (small & sums_of_some) != 0) {
        return false;
      }
      any = sum != 0 || elements != 0;
    }
    const V logs =
        V::select(equal(all, zero), none, log_of_scaled(all, static_cast<A>(segment.origin)));
    V result = logs;
    if (segment.exclusive) {
      follow_lanes<V::lanes, 1>(before.v, logs.v, result.v);
      before = logs;
    }
    if (left >= V::lanes) {
      at.store(i, result);
    } else {
      at.store(i, result, static_cast<int>(left));
    }
    const auto last = static_cast<double>(reversed(sums).first_lane());
    if constexpr (sizeof(A) == sizeof(double)) {
      add(total, last);  // what few lanes add to many would show
    } else {
      total.value += last;
    }
  }
  if (!segment.exclusive && n > 0) {
    at.store(n - 1, V(static_cast<A>(segment.last)), 1);
  }
  return true;
}

template <class T, class Out>
bool scan_kernel(const void* x, std::int64_t n, const scan_segment* segment, void* y) {
  const T* const in = static_cast<const T*>(x);
  Out* const out = static_cast<Out*>(y);
  const bool scaled = segment->scale != 1;
  if (segment->reverse) {
    const scan_order<T, Out, true> at{in, out, n};
    return scaled ? scan_in_order<T, Out, true>(at, *segment)
                  : scan_in_order<T, Out, false>(at, *segment);
  }
  const scan_order<T, Out, false> at{in, out, n};
  return scaled ? scan_in_order<T, Out, true>(at, *segment)
                : scan_in_order<T, Out, false>(at, *segment);
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
