// SPDX-License-Identifier: Apache-2.0
/// \file
/// Rows and gradients as core/reproducible.hpp has them: packets over the lanes of a team.
#pragma once

#include "lanes.hpp"

#include <core/exact_state.hpp>
#include <core/problem.hpp>
#include <core/real_types.hpp>
#include <core/reproducible.hpp>
#include <core/typed_memory.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <limits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

namespace definition = core::reproducible;

template <class A>
struct exact_sum_monoid {
  using value_type = definition::exact_sum<A>;
  KOKKOS_FUNCTION static value_type identity() { return {}; }
  KOKKOS_FUNCTION static value_type combine(const value_type& a, const value_type& b) {
    value_type r = a;
    r.add(b);
    return r;
  }
};
static_assert(core::monoid<exact_sum_monoid<float>>);

/// The largest element in the order of scaled ones; NaN if there is one.
template <class A>
struct largest_monoid {
  struct value_type {
    A largest = 0;
    bool negative = false;  ///< the scale
    bool any = false;
  };
  KOKKOS_FUNCTION static value_type identity() { return {}; }
  KOKKOS_FUNCTION static value_type combine(const value_type& a, const value_type& b) {
    if (!a.any || !b.any) {
      return a.any ? a : b;
    }
    return definition::is_larger(a.negative ? A{-1} : A{1}, b.largest, a.largest) ? b : a;
  }
};
static_assert(core::monoid<largest_monoid<float>>);

/// A row's largest element, of scaled ones, and the sum of its terms.
template <class A>
struct largest_and_sum {
  A largest;
  definition::exact_sum<A> sum;
};

/// frame_of(scale, largest): what the terms are of.
template <class A, class Lanes, class T, class FrameOf>
KOKKOS_FUNCTION largest_and_sum<A> sum_of_row(const Lanes& lanes, const T* row, std::int64_t cols,
                                              A s, const FrameOf& frame_of) {
  constexpr A infinity = std::numeric_limits<A>::infinity();
  using largest = largest_monoid<A>;
  const auto most =
      lanes.template reduce<largest>(cols, [&](std::int64_t i, typename largest::value_type& all) {
        all = largest::combine(all, {static_cast<A>(row[i]), s < 0, true});
      });
  const A x_most = most.any ? most.largest : s < 0 ? infinity : -infinity;
  definition::exact_sum<A> sum;
  if (definition::row_total<A>::kind_of(s, x_most) == definition::row_kind::ordinary) {
    const definition::frame<A> exponents = frame_of(s, x_most);
    const std::int32_t anchor = definition::anchor_of(definition::term_of(exponents(x_most)).n);
    constexpr int columns = definition::packet_columns;
    sum = lanes.template reduce<exact_sum_monoid<A>>(
        (cols + columns - 1) / columns, [&](std::int64_t packet, definition::exact_sum<A>& all) {
          definition::exponent<A> e[columns];
          for (int i = 0; i < columns; ++i) {
            const std::int64_t c = packet * columns + i;
            e[i] = c < cols ? exponents(static_cast<A>(row[c]))
                            : definition::exponent<A>{-infinity, A{0}};
          }
          definition::add_packet(e, anchor, all);
        });
  }
  return {x_most, sum};
}

/// What is wanted of rows; null data is not.
template <class T>
struct reproducible_rows {
  using A = core::arithmetic_t<T>;
  static constexpr int shared_bytes = 0;

  const_matrix_ref whole;  ///< the rows
  double scale = 1;
  const_matrix_ref x = {};  ///< elements of theirs, that y is of; without data, see indices
  matrix_ref indices = {};
  std::int64_t column_offset = 0;
  matrix_ref y = {};
  empty_row policy = empty_row::nan;
  bool log = false;
  matrix_ref lse = {};                       ///< [rows, 1]
  const exact_max_sum<A>* states = nullptr;  ///< of the rows, if they are given

  template <class Lanes>
  KOKKOS_FUNCTION definition::row_total<A> total_of(const Lanes& lanes, const T* row,
                                                    std::int64_t r) const {
    const A s = static_cast<A>(scale);
    if (states != nullptr) {
      return definition::total_of(s, states[r]);
    }
    const auto found = sum_of_row<A>(lanes, row, whole.cols, s, [](A by, A largest) {
      return definition::frame<A>::of(by, largest);
    });
    return definition::row_total<A>::of(s, found.largest, found.sum);
  }

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t r) const {
    const T* const row = static_cast<const T*>(whole.data) + r * whole.stride;
    const auto total = total_of(lanes, row, r);
    if (lanes.lane() == 0 && lse.data != nullptr) {
      core::write_real(lse.data, lse.type, r * lse.stride, total.lse);
    }
    const bool is_zero = total.kind == definition::row_kind::empty && policy == empty_row::zero;
    const A other = !is_zero ? std::numeric_limits<A>::quiet_NaN()
                    : log    ? -std::numeric_limits<A>::infinity()
                             : A{0};
    lanes.each(y.data == nullptr ? 0 : y.cols, [&](std::int64_t i) {
      const T element =
          x.data != nullptr
              ? static_cast<const T*>(x.data)[r * x.stride + i]
              : row[core::integer_at(indices.data, indices.type, r * indices.stride + i) -
                    column_offset];
      const A v = static_cast<A>(element);
      core::write_real(y.data, y.type, r * y.stride + i,
                       total.kind != definition::row_kind::ordinary ? other
                       : log                                        ? total.log_softmax(v)
                                                                    : total.softmax(v));
    });
  }
};

/// States with exact sums.
template <class T>
struct exact_fold_rows {
  using A = core::arithmetic_t<T>;
  static constexpr int shared_bytes = 0;

  core::fold_problem p;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t r) const {
    const T* const row = static_cast<const T*>(p.x.data) + r * p.x.stride;
    const A s = static_cast<A>(p.scale);
    const auto found = sum_of_row<A>(lanes, row, p.x.cols, s, [](A by, A largest) {
      return definition::state_frame(by, largest);
    });
    if (lanes.lane() == 0) {
      static_cast<exact_max_sum<A>*>(p.partials.data)[r] =
          definition::state_of(s, found.largest, found.sum);
    }
  }
};

template <class A>
struct logsumexp_of_exact_states {
  core::state_problem p;
  KOKKOS_FUNCTION void operator()(std::int64_t r) const {
    static_cast<A*>(p.lse.data)[r] =
        definition::total_of(A{1}, static_cast<const exact_max_sum<A>*>(p.partials.data)[r]).lse;
  }
};

template <class T>
struct reproducible_gradients {
  using A = core::arithmetic_t<T>;
  static constexpr int shared_bytes = definition::tile_packets * sizeof(double);

  core::backward_problem p;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t r) const {
    const T* const y = static_cast<const T*>(p.y.data) + r * p.y.stride;
    const T* const dy = static_cast<const T*>(p.dy.data) + r * p.dy.stride;
    auto* const packets = static_cast<double*>(lanes.memory);
    core::compensated_sum sum;
    for (std::int64_t tile = 0; tile < p.y.cols; tile += definition::tile_columns) {
      lanes.each(definition::tile_packets, [&](std::int64_t packet) {
        double t[definition::packet_columns];
        for (int i = 0; i < definition::packet_columns; ++i) {
          const std::int64_t c = tile + packet * definition::packet_columns + i;
          t[i] = c < p.y.cols
                     ? definition::summand<A>(p.log, static_cast<A>(y[c]), static_cast<A>(dy[c]))
                     : 0.0;
        }
        packets[packet] = definition::sum_of_packet(t);
      });
      lanes.sync();
      for (int half = definition::tile_packets / 2; half > 0; half /= 2) {
        lanes.each(half, [&](std::int64_t i) { packets[i] += packets[i + half]; });
        lanes.sync();
      }
      sum.add(packets[0]);
      lanes.sync();
    }
    const auto row = definition::row_gradient<A>::of(static_cast<A>(p.scale), sum);
    lanes.each(p.y.cols, [&](std::int64_t i) {
      const A a = static_cast<A>(y[i]);
      const A b = static_cast<A>(dy[i]);
      core::write_real(p.dx.data, p.dx.type, r * p.dx.stride + i,
                       p.log ? row.log_softmax(a, b) : row.softmax(a, b));
    });
  }
};

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
