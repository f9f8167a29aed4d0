// SPDX-License-Identifier: Apache-2.0
/// \file
/// Kernels that fold rows, and what follows from a row's state.
#pragma once

#include "fold.hpp"
#include "lanes.hpp"
#include "plan.hpp"

#include <Kokkos_Core.hpp>

#include <cmath>
#include <cstdint>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

/// Elements that a lane looks at together.
inline constexpr int tile_elements = 8;

/// The state of n consecutive elements: one read.
template <class T, class Lanes>
KOKKOS_FUNCTION row_fold<arithmetic_t<T>> fold_elements(const Lanes& lanes,
                                                        const fold_monoid<arithmetic_t<T>>& monoid,
                                                        const T* x, int n) {
  using A = arithmetic_t<T>;
  const int width = lanes.width;
  const int block = width * tile_elements;
  row_fold<A> result = monoid.identity();
  lanes.reduce((n + block - 1) / block * width,
               [&](int i, row_fold<A>& state) {
                 const int begin = i / width * block;
                 const int lane = i % width;
                 const int rest = (n - begin + width - 1) / width;
                 const int used = rest < tile_elements ? rest : tile_elements;
                 A z[tile_elements];
                 for (int j = 0; j < tile_elements; ++j) {
                   const int column = begin + j * width + lane;
                   z[j] = j < used && column < n ? monoid.scale.element(widen(x[column]))
                                                 : -infinity<A>;
                 }
                 monoid.add_tile(state, z, used);
               },
               monoid_reducer(monoid, result));
  return monoid.finished(result);
}

/// softmax and log-softmax of part of a row.
template <class T, class Out>
struct map_finish {
  using element = T;
  using A = arithmetic_t<T>;
  const T* x;
  std::int64_t x_stride;
  Out* y;
  std::int64_t y_stride;
  A empty_value;  ///< for each element of an empty row
  bool log;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, const scaling<A>& scale,
                                  const row_fold<A>& state, std::int64_t row, std::int64_t begin,
                                  int count) const {
    using std::log;
    const T* const from = x + row * x_stride + begin;
    Out* const to = y + row * y_stride + begin;
    const row_kind kind = kind_of(state);
    if (kind != row_kind::ordinary) {
      const Out value =
          narrow<Out>(kind == row_kind::empty ? empty_value : std::numeric_limits<A>::quiet_NaN());
      lanes.each(count, [=](int i) { to[i] = value; });
      return;
    }
    const A reference = state.reference;
    if (this->log) {
      const A log_sum = static_cast<A>(log(static_cast<double>(state.sum)));
      lanes.each(count, [=](int i) {
        const auto t = scale.below(scale.element(widen(from[i])), reference);
        to[i] = narrow<Out>(t.value + (t.error - log_sum));
      });
    } else {
      const A inverse = A{1} / state.sum;
      lanes.each(count, [=](int i) {
        to[i] = narrow<Out>(scale.exp_below(scale.element(widen(from[i])), reference) * inverse);
      });
    }
  }
};

/// A row's logsumexp, given its finished state.
template <class A>
KOKKOS_FUNCTION A logsumexp_of(const scaling<A>& scale, const row_fold<A>& state) {
  using std::fma;
  using std::log;
  switch (kind_of(state)) {
    case row_kind::empty:
      return -infinity<A>;
    case row_kind::infinite:
      return infinity<A>;
    case row_kind::nan:
      return std::numeric_limits<A>::quiet_NaN();
    case row_kind::ordinary:
      break;
  }
  return static_cast<A>(fma(static_cast<double>(scale.factor), static_cast<double>(state.max),
                            log(static_cast<double>(state.sum))));
}

template <class T, class Out>
struct logsumexp_finish {
  using element = T;
  using A = arithmetic_t<T>;
  Out* lse;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, const scaling<A>& scale,
                                  const row_fold<A>& state, std::int64_t row, std::int64_t,
                                  int) const {
    lanes.once([&] { lse[row] = narrow<Out>(logsumexp_of(scale, state)); });
  }
};

/// Whether what a scaled maximum was rounded by is a small factor of a sum. Beyond, a public sum
/// stays relative to the exact maximum, and an element whose product rounds like it stands at it.
template <class A>
KOKKOS_FUNCTION bool is_near_exact(A max) {
  constexpr A limit = sizeof(A) == 8 ? A(0x1p59) : A(0x1p30);
  return max < limit && max > -limit;
}

/// Of an element, in the frame of a public maximum.
template <class A>
KOKKOS_FUNCTION A exponent_below(const scaling<A>& scale, A element, A max) {
  using std::fma;
  const A x = scale.element(element);
  return !is_near_exact(max) && scale.factor * x == max ? A{0} : fma(scale.factor, x, -max);
}

/// The public state of a row.
template <class T>
struct partial_finish {
  using element = T;
  using A = arithmetic_t<T>;
  max_sum<A>* partials;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, const scaling<A>& scale,
                                  const row_fold<A>& state, std::int64_t row, std::int64_t,
                                  int) const {
    lanes.once([&] { partials[row] = partial_of(scale, state); });
  }

  KOKKOS_FUNCTION static max_sum<A> partial_of(const scaling<A>& scale, const row_fold<A>& state) {
    using std::exp;
    using std::fma;
    const A nan = std::numeric_limits<A>::quiet_NaN();
    const row_kind kind = kind_of(state);
    if (kind == row_kind::nan) {
      return {nan, nan};
    }
    if (kind == row_kind::empty) {
      return {-infinity<A>, A{0}};
    }
    const A max = scale.factor * state.max;
    if (max == infinity<A> || max == -infinity<A>) {
      return {max, A{1}};  // also where the scaled maximum is past the arithmetic's range
    }
    const A rounding = is_near_exact(max) ? fma(scale.factor, state.max, -max) : A{0};
    return {max, state.sum * exp(rounding)};
  }
};

/// A row's elements, and the scale they are folded with.
template <class T>
struct row_source {
  const T* x;
  std::int64_t stride;
  std::int64_t rows;
  std::int64_t cols;
  fold_monoid<arithmetic_t<T>> monoid;
};

/// Rows that a thread's lanes or a team fold and finish.
template <class Exec, class Finish>
struct whole_rows {
  using T = typename Finish::element;
  using member_type = typename Kokkos::TeamPolicy<Exec>::member_type;
  row_source<T> source;
  Finish finish;
  bool by_threads;
  int vector_length;
  std::int64_t first;  ///< row of the first team

  KOKKOS_FUNCTION void operator()(const member_type& member) const {
    const int threads = member.team_size();
    if (by_threads) {
      const std::int64_t begin = first + std::int64_t{member.league_rank()} * threads;
      Kokkos::parallel_for(Kokkos::TeamThreadRange(member, threads), [&](int i) {
        if (begin + i < source.rows) {
          row(thread_lanes<member_type>{member, vector_length}, begin + i);
        }
      });
    } else {
      row(team_lanes<member_type>{member, vector_length * threads}, first + member.league_rank());
    }
  }

  template <class Lanes>
  KOKKOS_FUNCTION void row(const Lanes& lanes, std::int64_t r) const {
    const int n = static_cast<int>(source.cols);
    finish(lanes, source.monoid.scale,
           fold_elements(lanes, source.monoid, source.x + r * source.stride, n), r, 0, n);
  }
};

/// Where a long row's segments leave their states, and how many there are.
template <class A>
struct segment_states {
  row_fold<A>* states;
  std::int64_t segments;
  std::int64_t columns;  ///< of a segment
};

/// The first pass over long rows: a team for each segment.
template <class Exec, class T>
struct fold_segments {
  using A = arithmetic_t<T>;
  using member_type = typename Kokkos::TeamPolicy<Exec>::member_type;
  row_source<T> source;
  segment_states<A> parts;
  int vector_length;
  std::int64_t first;  ///< segment of the first team, counted over all rows

  KOKKOS_FUNCTION void operator()(const member_type& member) const {
    const std::int64_t index = first + member.league_rank();
    const std::int64_t r = index / parts.segments;
    const std::int64_t begin = index % parts.segments * parts.columns;
    const std::int64_t rest = source.cols - begin;
    const int count = static_cast<int>(rest < parts.columns ? rest : parts.columns);
    const team_lanes<member_type> lanes{member, vector_length * member.team_size()};
    const row_fold<A> state =
        fold_elements(lanes, source.monoid, source.x + r * source.stride + begin, count);
    lanes.once([&] { parts.states[index] = state; });
  }
};

/// A row's state from its segments'.
template <class A, class Lanes>
KOKKOS_FUNCTION row_fold<A> fold_states(const Lanes& lanes, const fold_monoid<A>& monoid,
                                        const row_fold<A>* states, int n) {
  row_fold<A> result = monoid.identity();
  lanes.reduce(
      n, [&](int i, row_fold<A>& state) { state = monoid.combine(state, states[i]); },
      monoid_reducer(monoid, result));
  return monoid.finished(result);
}

/// The second pass: `pieces` teams for each row, one for each segment or one in all.
template <class Exec, class Finish>
struct finish_segments {
  using T = typename Finish::element;
  using A = arithmetic_t<T>;
  using member_type = typename Kokkos::TeamPolicy<Exec>::member_type;
  row_source<T> source;
  segment_states<A> parts;
  Finish finish;
  std::int64_t pieces;
  int vector_length;
  std::int64_t first;

  KOKKOS_FUNCTION void operator()(const member_type& member) const {
    const std::int64_t index = first + member.league_rank();
    const std::int64_t r = index / pieces;
    const std::int64_t begin = index % pieces * parts.columns;
    const std::int64_t rest = source.cols - begin;
    const int count = static_cast<int>(rest < parts.columns ? rest : parts.columns);
    const team_lanes<member_type> lanes{member, vector_length * member.team_size()};
    finish(lanes, source.monoid.scale,
           fold_states(lanes, source.monoid, parts.states + r * parts.segments,
                       static_cast<int>(parts.segments)),
           r, begin, count);
  }
};

/// logsumexp of states.
template <class A>
struct logsumexp_of_states {
  const max_sum<A>* partials;
  A* lse;

  KOKKOS_FUNCTION void operator()(std::int64_t r) const {
    using std::log;
    lse[r] = static_cast<A>(static_cast<double>(partials[r].max) +
                            log(static_cast<double>(partials[r].sum)));
  }
};

/// The second pass over parts of rows whose states the caller gives.
template <class Exec, class T, class Out>
struct normalize_rows {
  using A = arithmetic_t<T>;
  using member_type = typename Kokkos::TeamPolicy<Exec>::member_type;
  row_source<T> source;
  const max_sum<A>* partials;
  Out* y;
  std::int64_t y_stride;
  A empty_value;
  bool log;
  std::int64_t segments;
  std::int64_t columns;
  int vector_length;
  std::int64_t first;

  KOKKOS_FUNCTION void operator()(const member_type& member) const {
    using std::exp;
    const std::int64_t index = first + member.league_rank();
    const std::int64_t r = index / segments;
    const std::int64_t begin = index % segments * columns;
    const std::int64_t rest = source.cols - begin;
    const int count = static_cast<int>(rest < columns ? rest : columns);
    const team_lanes<member_type> lanes{member, vector_length * member.team_size()};
    const T* const from = source.x + r * source.stride + begin;
    Out* const to = y + r * y_stride + begin;
    const max_sum<A> whole = partials[r];
    const A max = whole.max;
    const A nan = std::numeric_limits<A>::quiet_NaN();
    const bool is_nan = !(max == max) || !(whole.sum == whole.sum);
    if (is_nan || max == infinity<A> || !(whole.sum > A{0}) || max == -infinity<A>) {
      const Out value = narrow<Out>(is_nan || max == infinity<A> ? nan : empty_value);
      lanes.each(count, [=](int i) { to[i] = value; });
      return;
    }
    const scaling<A> scale = source.monoid.scale;
    if (this->log) {
      using std::log;
      const A log_sum = static_cast<A>(log(static_cast<double>(whole.sum)));
      lanes.each(count, [=](int i) {
        to[i] = narrow<Out>(exponent_below(scale, widen(from[i]), max) - log_sum);
      });
      return;
    }
    const A inverse = A{1} / whole.sum;
    lanes.each(count, [=](int i) {
      to[i] = narrow<Out>(exp(exponent_below(scale, widen(from[i]), max)) * inverse);
    });
  }
};

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
