// SPDX-License-Identifier: Apache-2.0
/// \file
/// The k best elements of a row.
///
/// A team keeps candidates: every element that ranks before the k-th best at the last count. When
/// they may no longer fit they are sorted, and the k-th is the new bar. The order of candidates is
/// not reproducible, that of the sorted result is: no two are alike.
#pragma once

#include "rows.hpp"

#include <core/topk.hpp>

#include <bit>
#include <cstddef>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace kokkos_backend {

/// An element's key and its column, inverted: larger ones rank first. The default ranks after all.
struct candidate {
  std::uint64_t key = 0;
  std::uint64_t rest = 0;

  KOKKOS_FUNCTION bool ranks_before(const candidate& other) const {
    return key != other.key ? key > other.key : rest > other.rest;
  }
};

/// How many columns so many lanes look at before candidates are counted.
KOKKOS_INLINE_FUNCTION std::int64_t topk_chunk(int lanes) { return 4 * std::int64_t{lanes}; }

/// The candidates of a team of so many.
inline std::int64_t topk_capacity(std::int64_t k, int lanes) {
  return static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(k + topk_chunk(lanes))));
}

template <class T>
struct topk_rows {
  using A = arithmetic_t<T>;
  static constexpr int shared_bytes = 16;  // the number of candidates

  row_source<T> source;
  core::topk_problem p;
  bool folds;
  std::int64_t k;
  candidate* memory;  ///< for each team
  std::int64_t capacity;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t r) const {
    typename row_source<T>::state whole;
    if (folds) {
      whole = source.fold(lanes, r);
    }
    if (lanes.lane() == 0 && p.partials.data != nullptr) {
      static_cast<max_sum<A>*>(p.partials.data)[r] = whole.partial();
    }
    if (lanes.lane() == 0 && p.lse.data != nullptr) {
      core::write_real(p.lse.data, p.lse.type, r, whole.logsumexp());
    }
    candidate* const best = memory + lanes.member.league_rank() * capacity;
    select(lanes, best, r);
    const softmax_of<A> probability(whole, p.policy, false, false);
    lanes.each(p.indices.cols, [&](std::int64_t i) {
      const bool is_absent = i >= k;  // a list may be longer than the row
      const auto column = is_absent ? -1 : static_cast<std::int64_t>(~best[i].rest);
      core::write_integer(p.indices.data, p.indices.type, r * p.indices.stride + i,
                          is_absent ? -1 : column + p.column_offset);
      if (p.values.data != nullptr) {
        const A value = is_absent ? -std::numeric_limits<A>::infinity() : source.element(r, column);
        core::write_real(p.values.data, p.values.type, r * p.values.stride + i,
                         value == value ? value : std::numeric_limits<A>::quiet_NaN());
      }
      if (p.probabilities.data != nullptr && !is_absent) {
        core::write_real(p.probabilities.data, p.probabilities.type, r * p.probabilities.stride + i,
                         probability(source.at(r, column)));
      }
    });
  }

 private:
  /// Leaves the k best in their order.
  template <class Lanes>
  KOKKOS_FUNCTION void select(const Lanes& lanes, candidate* all, std::int64_t r) const {
    auto* const count = static_cast<std::uint64_t*>(lanes.memory);
    const std::int64_t chunk = topk_chunk(lanes.lanes());
    candidate bar;
    if (lanes.lane() == 0) {
      *count = 0;
    }
    lanes.sync();
    for (std::int64_t begin = 0; k > 0 && begin < source.cols; begin += chunk) {
      const std::int64_t left = source.cols - begin;
      lanes.each(left < chunk ? left : chunk, [&](std::int64_t i) {
        const candidate e{core::order_key(source.element(r, begin + i)),
                          ~static_cast<std::uint64_t>(begin + i)};
        if (e.ranks_before(bar)) {
          all[lanes.add(count, 1)] = e;
        }
      });
      lanes.sync();
      const auto found = static_cast<std::int64_t>(*count);
      lanes.sync();  // before anyone adds again
      if (left <= chunk || found > capacity - chunk) {
        sort(lanes, all, found);
        if (found >= k) {
          bar = all[k - 1];
        }
        if (lanes.lane() == 0) {
          *count = static_cast<std::uint64_t>(found < k ? found : k);
        }
        lanes.sync();
      }
    }
  }

  /// Batcher's bitonic sort.
  template <class Lanes>
  KOKKOS_FUNCTION static void sort(const Lanes& lanes, candidate* all, std::int64_t found) {
    std::int64_t size = 1;
    while (size < found) {
      size *= 2;
    }
    lanes.each(size - found, [&](std::int64_t i) { all[found + i] = candidate(); });
    lanes.sync();
    for (std::int64_t run = 2; run <= size; run *= 2) {
      for (std::int64_t step = run / 2; step > 0; step /= 2) {
        lanes.each(size / 2, [&](std::int64_t i) {
          const std::int64_t low = 2 * i - (i & (step - 1));
          const candidate a = all[low];
          const candidate b = all[low + step];
          if (b.ranks_before(a) == ((low & run) == 0)) {
            all[low] = b;
            all[low + step] = a;
          }
        });
        lanes.sync();
      }
    }
  }
};

/// combine_topk, a row each.
template <class T, class Index>
struct combine_lists {
  core::lists_problem p;

  KOKKOS_FUNCTION void operator()(std::int64_t r) const {
    core::combine_sorted<T, Index>(
        {static_cast<const T*>(p.more_values.data) + r * p.more_values.stride,
         static_cast<const Index*>(p.more_indices.data) + r * p.more_indices.stride},
        {static_cast<T*>(p.values.data) + r * p.values.stride,
         static_cast<Index*>(p.indices.data) + r * p.indices.stride},
        p.values.cols);
  }
};

}  // namespace kokkos_backend
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
