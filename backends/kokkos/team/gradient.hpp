// SPDX-License-Identifier: Apache-2.0
/// \file
/// The gradients of softmax and log-softmax as a job: two matrices are read, a row's state is a
/// sum.
#pragma once

#include "rows.hpp"

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

/// A sum as sum + lost. One that is not finite becomes NaN.
template <class A>
struct term_sum {
  A sum, lost;

  KOKKOS_FUNCTION void add(A term) {
    const A next = sum + term;
    const A back = next - sum;
    lost += (sum - (next - back)) + (term - back);
    sum = next;
  }
};

template <class A>
struct sum_monoid {
  using value_type = term_sum<A>;

  KOKKOS_FUNCTION static value_type identity() { return {A{0}, A{0}}; }
  KOKKOS_FUNCTION static value_type combine(const value_type& a, const value_type& b) {
    value_type r = a;
    r.add(b.sum);
    r.lost += b.lost;
    return r;
  }
  KOKKOS_FUNCTION static value_type finished(const value_type& a) { return a; }
};
static_assert(core::monoid<sum_monoid<float>> && core::monoid<sum_monoid<double>>);

/// The results y of a softmax, or with log of a log-softmax, and their gradient dy.
template <class T>
struct gradient_source {
  using A = arithmetic_t<T>;
  using monoid_type = sum_monoid<A>;
  const T* y;
  std::int64_t y_stride;
  const T* dy;
  std::int64_t dy_stride;
  std::int64_t rows;
  std::int64_t cols;
  bool log;
  monoid_type monoid;

  struct row_part {
    const T* y;
    const T* dy;
    bool log;

    KOKKOS_FUNCTION void add_tile(const monoid_type&, term_sum<A>& state, int first, int width,
                                  int used, int n) const {
      for (int j = 0; j < tile_elements; ++j) {
        const int column = first + j * width;
        if (j < used && column < n) {
          state.add(log ? widen(dy[column]) : widen(y[column]) * widen(dy[column]));
        }
      }
    }
  };
  KOKKOS_FUNCTION row_part part(std::int64_t row, std::int64_t begin) const {
    return {y + row * y_stride + begin, dy + row * dy_stride + begin, log};
  }
};

template <class T, class Out>
struct gradient_finish {
  using A = arithmetic_t<T>;
  Out* dx;
  std::int64_t dx_stride;
  A scale;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, const gradient_source<T>& source,
                                  const term_sum<A>& state, std::int64_t row, std::int64_t begin,
                                  int count) const {
    const auto from = source.part(row, begin);
    Out* const to = dx + row * dx_stride + begin;
    const A total = state.sum + state.lost;
    const A nan = std::numeric_limits<A>::quiet_NaN();
    const A sum = total - total == A{0} ? total : nan;
    const A s = scale;
    lanes.each(count, [=](int i) {
      using std::exp;
      using std::fma;
      const A y = widen(from.y[i]);
      const A dy = widen(from.dy[i]);
      const A r = s * (from.log ? fma(-exp(y), sum, dy) : y * (dy - sum));
      to[i] = narrow<Out>(r == r ? r : nan);
    });
  }
};

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
