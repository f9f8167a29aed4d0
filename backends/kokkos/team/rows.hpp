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

// A job is a source, which says what the rows are and into what they fold, and a finish, which gets
// a row's whole state. A source has a monoid, its rows and columns, and part(row, begin): from
// there on, add_tile() adds elements to a state. The kernels below know no more of either.

/// A row's elements, and the scale they are folded with.
template <class T>
struct row_source {
  using A = arithmetic_t<T>;
  using monoid_type = fold_monoid<A>;
  const T* x;
  std::int64_t stride;
  std::int64_t rows;
  std::int64_t cols;
  monoid_type monoid;

  struct row_part {
    const T* x;

    /// Adds the first `used` of elements first, first + width, ... below n.
    KOKKOS_FUNCTION void add_tile(const monoid_type& monoid, row_fold<A>& state, int first,
                                  int width, int used, int n) const {
      A z[tile_elements];
      for (int j = 0; j < tile_elements; ++j) {
        const int column = first + j * width;
        z[j] = j < used && column < n ? monoid.scale.element(widen(x[column])) : -infinity<A>;
      }
      monoid.add_tile(state, z, used);
    }
  };
  KOKKOS_FUNCTION const T* at(std::int64_t row, std::int64_t begin) const {
    return x + row * stride + begin;
  }
  KOKKOS_FUNCTION row_part part(std::int64_t row, std::int64_t begin) const {
    return {at(row, begin)};
  }
};

template <class Source>
using state_of = typename Source::monoid_type::value_type;

/// The state of n consecutive elements: one read.
template <class Source, class Lanes>
KOKKOS_FUNCTION state_of<Source> fold_elements(const Lanes& lanes, const Source& source,
                                               std::int64_t row, std::int64_t first, int n) {
  const auto part = source.part(row, first);
  const auto& monoid = source.monoid;
  const int width = lanes.width;
  const int block = width * tile_elements;
  state_of<Source> result = monoid.identity();
  lanes.reduce((n + block - 1) / block * width,
               [&](int i, state_of<Source>& state) {
                 const int begin = i / width * block;
                 const int rest = (n - begin + width - 1) / width;
                 part.add_tile(monoid, state, begin + i % width, width,
                               rest < tile_elements ? rest : tile_elements, n);
               },
               monoid_reducer(monoid, result));
  return monoid.finished(result);
}

/// softmax and log-softmax of part of a row.
template <class T, class Out>
struct map_finish {
  using A = arithmetic_t<T>;
  Out* y;
  std::int64_t y_stride;
  A empty_value;  ///< for each element of an empty row
  bool log;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, const row_source<T>& source,
                                  const row_fold<A>& state, std::int64_t row, std::int64_t begin,
                                  int count) const {
    using std::log;
    const scaling<A> scale = source.monoid.scale;
    const T* const from = source.at(row, begin);
    Out* const to = y + row * y_stride + begin;
    const row_kind kind = kind_of(scale, state);
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
        const A z = scale.element(widen(from[i]));
        const auto t = scale.below(z, reference);
        const A value = t.value + (t.error - log_sum);
        to[i] = narrow<Out>(scale.factor * z == -infinity<A> ? -infinity<A>
                            : value > A{0}                   ? A{0}
                                                             : value);
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
  switch (kind_of(scale, state)) {
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
  using A = arithmetic_t<T>;
  Out* lse;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, const row_source<T>& source,
                                  const row_fold<A>& state, std::int64_t row, std::int64_t,
                                  int) const {
    lanes.once([&] { lse[row] = narrow<Out>(logsumexp_of(source.monoid.scale, state)); });
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
  if (is_near_exact(max)) {
    return fma(scale.factor, x, -max);
  }
  const A product = scale.factor * x;
  return product == max ? A{0} : product == -infinity<A> ? product : fma(scale.factor, x, -max);
}

/// The public state of a row.
template <class T>
struct partial_finish {
  using A = arithmetic_t<T>;
  max_sum<A>* partials;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, const row_source<T>& source,
                                  const row_fold<A>& state, std::int64_t row, std::int64_t,
                                  int) const {
    lanes.once([&] { partials[row] = partial_of(source.monoid.scale, state); });
  }

  KOKKOS_FUNCTION static max_sum<A> partial_of(const scaling<A>& scale, const row_fold<A>& state) {
    using std::exp;
    using std::fma;
    const A nan = std::numeric_limits<A>::quiet_NaN();
    const row_kind kind = kind_of(scale, state);
    if (kind == row_kind::nan) {
      return {nan, nan};
    }
    if (kind == row_kind::empty) {
      return {-infinity<A>, A{0}};
    }
    const A max = scale.factor * state.max;
    if (kind == row_kind::infinite) {
      return {max, A{1}};
    }
    const A rounding = is_near_exact(max) ? fma(scale.factor, state.max, -max) : A{0};
    return {max, state.sum * exp(rounding)};
  }
};

/// Rows that a thread's lanes or a team fold and finish.
template <class Exec, class Source, class Finish>
struct whole_rows {
  using member_type = typename Kokkos::TeamPolicy<Exec>::member_type;
  Source source;
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
    finish(lanes, source, fold_elements(lanes, source, r, 0, n), r, 0, n);
  }
};

/// Where a long row's segments leave their states, and how many there are.
template <class State>
struct segment_states {
  State* states;
  std::int64_t segments;
  std::int64_t columns;  ///< of a segment
};

/// The first pass over long rows: a team for each segment.
template <class Exec, class Source>
struct fold_segments {
  using member_type = typename Kokkos::TeamPolicy<Exec>::member_type;
  Source source;
  segment_states<state_of<Source>> parts;
  int vector_length;
  std::int64_t first;  ///< segment of the first team, counted over all rows

  KOKKOS_FUNCTION void operator()(const member_type& member) const {
    const std::int64_t index = first + member.league_rank();
    const std::int64_t r = index / parts.segments;
    const std::int64_t begin = index % parts.segments * parts.columns;
    const std::int64_t rest = source.cols - begin;
    const int count = static_cast<int>(rest < parts.columns ? rest : parts.columns);
    const team_lanes<member_type> lanes{member, vector_length * member.team_size()};
    const state_of<Source> state = fold_elements(lanes, source, r, begin, count);
    lanes.once([&] { parts.states[index] = state; });
  }
};

/// A row's state from its segments'.
template <class Monoid, class Lanes>
KOKKOS_FUNCTION typename Monoid::value_type fold_states(const Lanes& lanes, const Monoid& monoid,
                                                        const typename Monoid::value_type* states,
                                                        int n) {
  using state = typename Monoid::value_type;
  state result = monoid.identity();
  lanes.reduce(
      n, [&](int i, state& sum) { sum = monoid.combine(sum, states[i]); },
      monoid_reducer(monoid, result));
  return monoid.finished(result);
}

/// The second pass: `pieces` teams for each row, one for each segment or one in all.
template <class Exec, class Source, class Finish>
struct finish_segments {
  using member_type = typename Kokkos::TeamPolicy<Exec>::member_type;
  Source source;
  segment_states<state_of<Source>> parts;
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
    finish(lanes, source,
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
        const A value = exponent_below(scale, widen(from[i]), max) - log_sum;
        to[i] = narrow<Out>(value > A{0} ? A{0} : value);
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
