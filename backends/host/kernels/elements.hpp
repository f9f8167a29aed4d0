// SPDX-License-Identifier: Apache-2.0
/// \file
/// Walks along a row in vectors: reductions and maps of elements, with masked ends.
#pragma once

#include <backends/host/kernels/table.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// Asks for the line some pages after p, which memory takes as long to bring as the arithmetic up
/// to it takes (measured: docs/notes.md). Past the end of memory this does nothing. `to_l2`: no
/// nearer than the second-level cache; see plan.
template <bool to_l2 = false, class T>
SOFTFOLD_INLINE void prefetch_ahead(const T* p) {
  constexpr std::uintptr_t ahead_bytes = 3 * 4096;
  const auto* const ahead =
      reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(p) + ahead_bytes);
  to_l2 ? prefetch_l2(ahead) : prefetch(ahead);
}

/// Whether plans ask for that of a type.
template <class T>
inline constexpr bool may_stay_out = sizeof(T) == sizeof(arithmetic_t<T>);

/// body(vector, slot) for each vector of x[0, n), the last one filled up with `rest`. slot
/// counts 0, 1, 2, 3, 0, ...: independent accumulators hide the latency of additions.
template <class T, class Body>
SOFTFOLD_INLINE void for_each_vector(const T* x, std::int64_t n, vec<arithmetic_t<T>> rest,
                                     Body&& body) {
  using V = vec<arithmetic_t<T>>;
  std::int64_t i = 0;
  for (; i + 4 * V::lanes <= n; i += 4 * V::lanes) {
    body(V::load(x + i), i, 0);
    body(V::load(x + i + V::lanes), i + V::lanes, 1);
    body(V::load(x + i + 2 * V::lanes), i + 2 * V::lanes, 2);
    body(V::load(x + i + 3 * V::lanes), i + 3 * V::lanes, 3);
  }
  for (int slot = 0; i < n; i += V::lanes, ++slot) {
    const std::int64_t left = n - i;
    body(left >= V::lanes ? V::load(x + i) : V::load(x + i, static_cast<int>(left), rest), i, slot);
  }
}

/// Stores the first `count` results of v, which end where a vector can be streamed to. In parts
/// that do not reach past that: a masked store's address range would, and what it merely touches
/// is slow to stream to.
template <class Out>
SOFTFOLD_INLINE void store_head(vec<arithmetic_t<Out>> v, Out* y, std::int64_t count) {
  alignas(64) Out results[static_cast<unsigned>(vec<arithmetic_t<Out>>::lanes)];
  v.store(results);
  const Out* from = results;
#pragma GCC unroll 5
  for (std::int64_t part = 1; part < vec<arithmetic_t<Out>>::lanes; part *= 2) {
    if ((count & part) != 0) {
      __builtin_memcpy(y, from, static_cast<std::size_t>(part) * sizeof(Out));
      y += part;
      from += part;
    }
  }
}

/// What a loop loads: the elements of a row.
template <class T, bool to_l2 = false>
struct one_row {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  const T* x;

  SOFTFOLD_INLINE one_row from(std::int64_t i) const { return {x + i}; }
  SOFTFOLD_INLINE V load(std::int64_t i) const { return V::load(x + i); }
  /// The first `count` of a vector, and `rest`.
  SOFTFOLD_INLINE V load(std::int64_t i, int count, A rest = 0) const {
    return V::load(x + i, count, V(rest));
  }
  SOFTFOLD_INLINE void prefetch_ahead_of(std::int64_t i) const { prefetch_ahead<to_l2>(x + i); }
};

/// The same of two rows, whose elements of one column go together.
template <class T>
struct two_rows {
  using A = arithmetic_t<T>;
  using V = vec<A>;
  const T* a;
  const T* b;

  struct pair {
    V a, b;
  };
  SOFTFOLD_INLINE pair load(std::int64_t i) const { return {V::load(a + i), V::load(b + i)}; }
  SOFTFOLD_INLINE pair load(std::int64_t i, int count) const {
    const V rest(A{0});
    return {V::load(a + i, count, rest), V::load(b + i, count, rest)};
  }
};

/// y[i] = f(from[i]); y may be a row of the source. Streamed stores are ordered by end_of_stream
/// only, which whoever streams calls once when done: after every row it would wait for memory each
/// time.
template <class Source, class Out, class F>
SOFTFOLD_INLINE void map_source(const Source& from, std::int64_t n, Out* y, bool stream,
                                const F& f) {
  using V = typename Source::V;
  std::int64_t i = 0;
  if (stream) {
    constexpr std::uintptr_t bytes = sizeof(Out) * V::lanes;
    const auto past = reinterpret_cast<std::uintptr_t>(y) % bytes;
    const auto head = static_cast<std::int64_t>((bytes - past) % bytes / sizeof(Out));
    if (head != 0 && head < n) {
      store_head(f(from.load(0, static_cast<int>(head))), y, head);
      i = head;
    }
    if (head < n) {
      for (; i + 4 * V::lanes <= n; i += 4 * V::lanes) {
        const V a = f(from.load(i)), b = f(from.load(i + V::lanes));
        const V c = f(from.load(i + 2 * V::lanes)), d = f(from.load(i + 3 * V::lanes));
        a.stream(y + i);
        b.stream(y + i + V::lanes);
        c.stream(y + i + 2 * V::lanes);
        d.stream(y + i + 3 * V::lanes);
      }
    }
  }
  for (; i + 4 * V::lanes <= n; i += 4 * V::lanes) {
    const V a = f(from.load(i)), b = f(from.load(i + V::lanes));
    const V c = f(from.load(i + 2 * V::lanes)), d = f(from.load(i + 3 * V::lanes));
    a.store(y + i);
    b.store(y + i + V::lanes);
    c.store(y + i + 2 * V::lanes);
    d.store(y + i + 3 * V::lanes);
  }
  for (; i + V::lanes <= n; i += V::lanes) {
    f(from.load(i)).store(y + i);
  }
  if (i < n) {
    f(from.load(i, static_cast<int>(n - i))).store(y + i, static_cast<int>(n - i));
  }
}

/// y[i] = f(x[i]); y may be x.
template <class T, class Out, class F>
SOFTFOLD_INLINE void map_elements(const T* x, std::int64_t n, Out* y, bool stream, const F& f) {
  map_source(one_row<T>{x}, n, y, stream, f);
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
