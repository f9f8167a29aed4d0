// SPDX-License-Identifier: Apache-2.0
/// \file
/// The k best elements of a row and its state in one read.
///
/// A team keeps candidates: every element that ranks before the k-th best at the last count. When
/// they may no longer fit they are sorted, cut to k, and the k-th is the new bar. For the elements
/// of a row in random order that happens a few times; in the worst order after every few chunks.
/// The order of candidates is not reproducible, that of the sorted result is: keys are all
/// different.
#pragma once

#include "rows.hpp"

#include <core/topk.hpp>
#include <core/typed_memory.hpp>

#include <softfold/dtype.hpp>

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

/// An element's key and its column; larger entries rank first. The default ranks after all.
struct wide_entry {
  std::uint64_t key = 0;
  std::uint64_t rest = 0;

  KOKKOS_FUNCTION static wide_entry of(std::uint64_t key, std::int64_t column) {
    wide_entry e;
    e.key = key;
    e.rest = ~static_cast<std::uint64_t>(column);
    return e;
  }
  KOKKOS_FUNCTION std::int64_t column() const { return static_cast<std::int64_t>(~rest); }
  KOKKOS_FUNCTION bool ranks_before(const wide_entry& other) const {
    return key != other.key ? key > other.key : rest > other.rest;
  }
};

/// The same in one word, for keys and columns of 32 bits.
struct packed_entry {
  std::uint64_t word = 0;

  KOKKOS_FUNCTION static packed_entry of(std::uint64_t key, std::int64_t column) {
    packed_entry e;
    e.word = key << 32 | (0xffffffffU - static_cast<std::uint64_t>(column));
    return e;
  }
  KOKKOS_FUNCTION std::int64_t column() const {
    return static_cast<std::int64_t>(0xffffffffU - (word & 0xffffffffU));
  }
  KOKKOS_FUNCTION bool ranks_before(const packed_entry& other) const { return word > other.word; }
};

/// Where the results of a top-k go. Null data is not wanted.
struct topk_outputs {
  matrix_ref values;
  matrix_ref indices;
  matrix_ref probabilities;
  vector_ref lse;
  double empty_value;
  std::int64_t column_offset;
};

KOKKOS_INLINE_FUNCTION void write_index(const matrix_ref& to, std::int64_t row, std::int64_t i,
                                        std::int64_t column) {
  core::write_integer(to.data, to.type, row * to.stride + i, column);
}

/// An absent entry of a list of values and indices.
KOKKOS_INLINE_FUNCTION void write_absent(const topk_outputs& to, std::int64_t row, std::int64_t i) {
  write_index(to.indices, row, i, -1);
  core::write_real(to.values.data, to.values.type, row * to.values.stride + i, -infinity<double>);
}

/// Lists of nothing but absent entries.
struct absent_lists {
  topk_outputs outputs;
  KOKKOS_FUNCTION void operator()(std::int64_t r) const {
    for (std::int64_t i = 0; i < outputs.indices.cols; ++i) {
      write_absent(outputs, r, i);
    }
  }
};

/// combine_topk, a row each.
template <class T, class Index>
struct combine_lists {
  const_matrix_ref more_values;
  const_matrix_ref more_indices;
  matrix_ref values;
  matrix_ref indices;

  KOKKOS_FUNCTION void operator()(std::int64_t r) const {
    core::combine_sorted<T, Index>(
        {static_cast<const T*>(more_values.data) + r * more_values.stride,
         static_cast<const Index*>(more_indices.data) + r * more_indices.stride},
        {static_cast<T*>(values.data) + r * values.stride,
         static_cast<Index*>(indices.data) + r * indices.stride},
        values.cols);
  }
};

/// The candidates of one row or segment.
template <class Entry>
struct candidates {
  Entry* entries;
  int* count;
  std::int64_t k;
  std::int64_t capacity;

  /// Of the memory that `capacity` candidates take; the count comes first.
  static constexpr std::size_t header = 16;
  static std::size_t bytes(std::int64_t capacity) {
    return header + static_cast<std::size_t>(capacity) * sizeof(Entry);
  }

  KOKKOS_FUNCTION void add(const Entry& e) const {
    entries[Kokkos::atomic_fetch_add(count, 1)] = e;
  }

  /// Sorts the candidates (Batcher's bitonic sort), keeps the k best. Returns the bar: what later
  /// elements have to rank before.
  template <class Lanes>
  KOKKOS_FUNCTION Entry cut(const Lanes& lanes, int found) const {
    std::int64_t size = 1;
    while (size < found) {
      size *= 2;
    }
    lanes.each(size - found, [=, *this](std::int64_t i) { entries[found + i] = Entry(); });
    lanes.barrier();
    for (std::int64_t run = 2; run <= size; run *= 2) {
      for (std::int64_t step = run / 2; step > 0; step /= 2) {
        lanes.each(size / 2, [=, *this](std::int64_t i) {
          const std::int64_t low = 2 * i - (i & (step - 1));
          const Entry a = entries[low];
          const Entry b = entries[low + step];
          if (b.ranks_before(a) == ((low & run) == 0)) {
            entries[low] = b;
            entries[low + step] = a;
          }
        });
        lanes.barrier();
      }
    }
    const bool full = found >= k;
    const Entry bar = full ? entries[k - 1] : Entry();
    lanes.once([=, *this] { *count = full ? static_cast<int>(k) : found; });
    lanes.barrier();
    return bar;
  }

  /// What `offer(i, bar)` for each of n elements adds, `chunk` at a time, comes to.
  template <class Lanes, class Offer>
  KOKKOS_FUNCTION void gather(const Lanes& lanes, std::int64_t n, std::int64_t chunk,
                              const Offer& offer) const {
    lanes.once([=, *this] { *count = 0; });
    lanes.barrier();
    Entry bar;
    for (std::int64_t begin = 0; begin < n; begin += chunk) {
      offer(begin, n - begin < chunk ? n - begin : chunk, bar);
      lanes.barrier();
      const int found = *count;
      lanes.barrier();  // before anyone adds again
      if (begin + chunk >= n || found > capacity - chunk) {
        bar = cut(lanes, found);
      }
    }
  }
};

/// Top-k of rows, or of segments of rows, or of the lists that segments left.
template <class Exec, class T, class Entry>
struct topk_rows {
  using A = arithmetic_t<T>;
  using member_type = typename Kokkos::TeamPolicy<Exec>::member_type;

  enum class stage : std::uint8_t { whole, segments, lists };

  row_source<T> source;
  segment_states<row_fold<A>> parts;  ///< stages segments and lists
  Entry* lists;                       ///< k entries of each segment
  topk_outputs outputs;
  stage what;
  bool folds;
  std::int64_t k;
  std::int64_t capacity;
  int chunk;
  std::byte* memory;  ///< of candidates, for each team; null: the team's scratch
  int vector_length;
  std::int64_t tasks;  ///< rows, or segments of all rows

  [[nodiscard]] std::size_t memory_bytes() const { return candidates<Entry>::bytes(capacity); }

  KOKKOS_FUNCTION void operator()(const member_type& member) const {
    const auto bytes =
        candidates<Entry>::header + static_cast<std::size_t>(capacity) * sizeof(Entry);
    std::byte* const own = memory != nullptr
                               ? memory + static_cast<std::size_t>(member.league_rank()) * bytes
                               : static_cast<std::byte*>(member.team_scratch(0).get_shmem(
                                     static_cast<std::ptrdiff_t>(bytes)));
    const candidates<Entry> best{reinterpret_cast<Entry*>(own + candidates<Entry>::header),
                                 reinterpret_cast<int*>(own), k, capacity};
    const team_lanes<member_type> lanes{member, vector_length * member.team_size()};
    for (std::int64_t task = member.league_rank(); task < tasks; task += member.league_size()) {
      run(lanes, best, task);
      lanes.barrier();
    }
  }

 private:
  template <class Lanes>
  KOKKOS_FUNCTION void run(const Lanes& lanes, const candidates<Entry>& best,
                           std::int64_t task) const {
    const fold_monoid<A>& monoid = source.monoid;
    if (what == stage::lists) {
      const Entry* const from = lists + task * parts.segments * k;
      best.gather(lanes, parts.segments * k, chunk,
                  [&](std::int64_t begin, std::int64_t n, const Entry& bar) {
                    lanes.each(n, [=](std::int64_t i) {
                      const Entry e = from[begin + i];
                      if (e.ranks_before(bar)) {
                        best.add(e);
                      }
                    });
                  });
      row_fold<A> state = monoid.identity();
      if (folds) {
        state = fold_states(lanes, monoid, parts.states + task * parts.segments,
                            static_cast<int>(parts.segments));
      }
      write(lanes, best, state, task);
      return;
    }
    const std::int64_t r = what == stage::segments ? task / parts.segments : task;
    const std::int64_t first = what == stage::segments ? task % parts.segments * parts.columns : 0;
    const std::int64_t rest = source.cols - first;
    const std::int64_t columns =
        what == stage::segments && rest > parts.columns ? parts.columns : rest;
    row_fold<A> state = monoid.identity();
    const T* const row = source.x + r * source.stride;
    best.gather(lanes, columns, chunk, [&](std::int64_t begin, std::int64_t n, const Entry& bar) {
      if (folds) {
        row_fold<A> part = monoid.identity();
        lanes.reduce(
            lanes.width,
            [&](int lane, row_fold<A>& s) {
              fold_and_offer(row, first + begin, n, lane, lanes.width, bar, best, s);
            },
            monoid_reducer(monoid, part));
        state = monoid.combine(state, part);
      } else {
        lanes.each(n, [=, *this](std::int64_t i) { offer(row, first + begin + i, bar, best); });
      }
    });
    state = monoid.finished(state);
    if (what == stage::whole) {
      write(lanes, best, state, r);
      return;
    }
    lanes.once([=, *this] { parts.states[task] = state; });
    Entry* const to = lists + task * k;
    // A last segment may have fewer elements; then the rest ranks after all.
    lanes.each(k, [=](std::int64_t i) { to[i] = i < *best.count ? best.entries[i] : Entry(); });
  }

  KOKKOS_FUNCTION static A offer(const T* row, std::int64_t column, const Entry& bar,
                                 const candidates<Entry>& best) {
    const A value = widen(row[column]);
    const Entry e = Entry::of(core::order_key(value), column);
    if (e.ranks_before(bar)) {
      best.add(e);
    }
    return value;
  }

  /// What one lane does of a chunk of n elements.
  KOKKOS_FUNCTION void fold_and_offer(const T* row, std::int64_t begin, std::int64_t n, int lane,
                                      int width, const Entry& bar, const candidates<Entry>& best,
                                      row_fold<A>& state) const {
    for (std::int64_t at = 0; at < n; at += std::int64_t{width} * topk_tile) {
      A z[topk_tile];
      const std::int64_t rest = (n - at + width - 1) / width;
      const int used = rest < topk_tile ? static_cast<int>(rest) : topk_tile;
      for (int j = 0; j < topk_tile; ++j) {
        const std::int64_t i = at + std::int64_t{j} * width + lane;
        z[j] = i < n ? source.monoid.scale.element(offer(row, begin + i, bar, best)) : -infinity<A>;
      }
      source.monoid.add_tile(state, z, used);
    }
  }

  template <class Lanes>
  KOKKOS_FUNCTION void write(const Lanes& lanes, const candidates<Entry>& best,
                             const row_fold<A>& state, std::int64_t r) const {
    const T* const row = source.x + r * source.stride;
    const row_kind kind = kind_of(source.monoid.scale, state);
    const A inverse = A{1} / state.sum;
    const A nan = std::numeric_limits<A>::quiet_NaN();
    lanes.each(outputs.indices.cols, [=, *this](std::int64_t i) {
      if (i >= k) {  // a list may be longer than the row
        write_absent(outputs, r, i);
        return;
      }
      const std::int64_t column = best.entries[i].column();
      const A value = widen(row[column]);
      write_index(outputs.indices, r, i, column + outputs.column_offset);
      if (outputs.values.data != nullptr) {
        core::write_real(outputs.values.data, outputs.values.type, r * outputs.values.stride + i,
                         value == value ? value : nan);
      }
      if (outputs.probabilities.data != nullptr) {
        const A probability =
            kind == row_kind::ordinary
                ? source.monoid.scale.exp_below(source.monoid.scale.element(value),
                                                state.reference) *
                      inverse
                : (kind == row_kind::empty ? static_cast<A>(outputs.empty_value) : nan);
        core::write_real(outputs.probabilities.data, outputs.probabilities.type,
                         r * outputs.probabilities.stride + i, probability);
      }
    });
    if (outputs.lse.data != nullptr) {
      lanes.once([=, *this] {
        core::write_real(outputs.lse.data, outputs.lse.type, r,
                         logsumexp_of(source.monoid.scale, state));
      });
    }
  }

  static constexpr int topk_tile = 4;
};

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
