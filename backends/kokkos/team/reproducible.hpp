// SPDX-License-Identifier: Apache-2.0
/// \file
/// Reproducible numerics: core/reproducible.hpp's steps, packets and tiles shared by a team's
/// lanes.
#pragma once

#include "rows.hpp"

#include <core/problem.hpp>
#include <core/reproducible.hpp>
#include <core/typed_memory.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <limits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

/// The larger number; NaN if there is one.
template <class A>
struct largest_monoid {
  using value_type = A;

  KOKKOS_FUNCTION static A identity() { return -std::numeric_limits<A>::infinity(); }
  KOKKOS_FUNCTION static A combine(A a, A b) { return a != a || a > b ? a : b; }
};

template <class A>
struct exact_sum_monoid {
  using value_type = core::reproducible::exact_sum<A>;

  KOKKOS_FUNCTION static value_type identity() { return {}; }
  KOKKOS_FUNCTION static value_type combine(value_type a, const value_type& b) {
    a.add(b);
    return a;
  }
};
static_assert(core::monoid<exact_sum_monoid<double>>);

/// The total of a row; every lane gets it.
template <class T, class Lanes>
KOKKOS_FUNCTION core::reproducible::row_total<arithmetic_t<T>> total_of_row(
    const Lanes& lanes, const row_source<T>& from, std::int64_t r) {
  namespace reproducible = core::reproducible;
  using A = arithmetic_t<T>;
  using total = reproducible::row_total<A>;
  const auto in_order = [&](A x) { return from.scale < 0 ? -x : x; };
  const A largest =
      in_order(lanes.template reduce<largest_monoid<A>>(from.cols, [&](std::int64_t c, A& most) {
        most = largest_monoid<A>::combine(most, in_order(from.element(r, c)));
      }));
  reproducible::exact_sum<A> sum;
  if (total::kind_of(from.scale, largest) == reproducible::row_kind::ordinary) {
    constexpr int columns = reproducible::packet_columns;
    const auto exponents = reproducible::frame<A>::of(from.scale, largest);
    const std::int32_t anchor =
        reproducible::anchor_of(reproducible::term_of(exponents(largest)).n);
    sum = lanes.template reduce<exact_sum_monoid<A>>(
        (from.cols + columns - 1) / columns,
        [&](std::int64_t packet, reproducible::exact_sum<A>& own) {
          reproducible::exponent<A> e[columns];
          for (int i = 0; i < columns; ++i) {
            const std::int64_t c = packet * columns + i;
            e[i] = c < from.cols
                       ? exponents(from.element(r, c))
                       : reproducible::exponent<A>{-std::numeric_limits<A>::infinity(), A{0}};
          }
          reproducible::add_packet(e, anchor, own);
        });
  }
  return total::of(from.scale, largest, sum);
}

template <class A>
KOKKOS_FUNCTION A result_of(const core::reproducible::row_total<A>& total, A x, bool log,
                            empty_row policy) {
  using core::reproducible::row_kind;
  if (total.kind == row_kind::ordinary) {
    return log ? total.log_softmax(x) : total.softmax(x);
  }
  return total.kind != row_kind::empty || policy == empty_row::nan
             ? std::numeric_limits<A>::quiet_NaN()
         : log ? -std::numeric_limits<A>::infinity()
               : A{0};
}

/// softmax, log-softmax, and logsumexp.
template <class T>
struct reproducible_rows {
  using A = arithmetic_t<T>;
  static constexpr int shared_bytes = 0;

  row_source<T> whole;  ///< the rows
  row_source<T> x;      ///< them, or some of their elements
  matrix_ref y = {};
  empty_row policy = empty_row::nan;
  bool log = false;
  matrix_ref lse = {};  ///< [rows, 1]

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t r) const {
    const auto total = total_of_row(lanes, whole, r);
    if (lanes.lane() == 0 && lse.data != nullptr) {
      core::write_real(lse.data, lse.type, r * lse.stride, total.lse);
    }
    lanes.sync();  // y may be x
    lanes.each(y.cols, [&](std::int64_t c) {
      core::write_real(y.data, y.type, r * y.stride + c,
                       result_of(total, x.element(r, c), log, policy));
    });
  }
};

/// What softmax_topk has beside its list.
template <class T>
struct reproducible_lists {
  static constexpr int shared_bytes = 0;

  row_source<T> source;
  core::topk_problem p;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t r) const {
    const auto total = total_of_row(lanes, source, r);
    if (lanes.lane() == 0 && p.lse.data != nullptr) {
      core::write_real(p.lse.data, p.lse.type, r, total.lse);
    }
    if (p.probabilities.data == nullptr) {
      return;
    }
    lanes.each(p.indices.cols, [&](std::int64_t i) {
      const std::int64_t column =
          core::integer_at(p.indices.data, p.indices.type, r * p.indices.stride + i);
      core::write_real(p.probabilities.data, p.probabilities.type, r * p.probabilities.stride + i,
                       result_of(total, source.element(r, column), false, p.policy));
    });
  }
};

template <class T>
struct reproducible_gradients {
  using A = arithmetic_t<T>;
  static constexpr int shared_bytes = core::reproducible::tile_packets * sizeof(double);

  core::backward_problem p;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t r) const {
    namespace reproducible = core::reproducible;
    const T* const y = static_cast<const T*>(p.y.data) + r * p.y.stride;
    const T* const dy = static_cast<const T*>(p.dy.data) + r * p.dy.stride;
    auto* const packets = static_cast<double*>(lanes.memory);
    reproducible::tile_sum sum;
    for (std::int64_t begin = 0; begin < p.y.cols; begin += reproducible::tile_columns) {
      lanes.each(reproducible::tile_packets, [&](std::int64_t packet) {
        double summands[reproducible::packet_columns];
        for (int i = 0; i < reproducible::packet_columns; ++i) {
          const std::int64_t c = begin + packet * reproducible::packet_columns + i;
          summands[i] = c < p.y.cols ? reproducible::summand<A>(p.log, static_cast<A>(y[c]),
                                                                static_cast<A>(dy[c]))
                                     : 0.0;
        }
        packets[packet] = reproducible::sum_of_packet(summands);
      });
      lanes.sync();
      for (int half = reproducible::tile_packets / 2; half > 0; half /= 2) {
        lanes.each(half, [&](std::int64_t i) { packets[i] += packets[i + half]; });
        lanes.sync();
      }
      sum.add(packets[0]);
      lanes.sync();
    }
    const auto row = reproducible::row_gradient<A>::of(static_cast<A>(p.scale), sum);
    lanes.each(p.y.cols, [&](std::int64_t c) {
      const A of_y = static_cast<A>(y[c]);
      const A of_dy = static_cast<A>(dy[c]);
      core::write_real(p.dx.data, p.dx.type, r * p.dx.stride + c,
                       p.log ? row.log_softmax(of_y, of_dy) : row.softmax(of_y, of_dy));
    });
  }
};

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
