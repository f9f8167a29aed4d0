// SPDX-License-Identifier: Apache-2.0
/// \file
/// Sets of columns as ranges in order that neither meet nor overlap.
#pragma once

#include <softfold/error.hpp>
#include <softfold/row_states.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace softfold::core {

/// The union of two sets, or a range that is in both.
struct disjoint_union {
  std::vector<column_range> columns;
  std::optional<column_range> shared;
};

inline disjoint_union unite(std::span<const column_range> a, std::span<const column_range> b) {
  std::vector<column_range> all;
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all),
             [](const column_range& x, const column_range& y) { return x.begin < y.begin; });
  disjoint_union result;
  for (const column_range& next : all) {
    if (next.begin == next.end) {
      continue;
    }
    if (result.columns.empty() || result.columns.back().end < next.begin) {
      result.columns.push_back(next);
      continue;
    }
    column_range& last = result.columns.back();
    if (next.begin < last.end) {
      result.shared = column_range{next.begin, std::min(last.end, next.end)};
      return result;
    }
    last.end = next.end;
  }
  return result;
}

/// The union; an error of a function if they share one. `what`: columns or keys.
inline std::vector<column_range> disjoint(const char* function, const char* what,
                                          std::span<const column_range> a,
                                          std::span<const column_range> b) {
  disjoint_union result = unite(a, b);
  if (result.shared) {
    throw error(errc::invalid_argument, std::string(function) + ": " + what + " " +
                                            std::to_string(result.shared->begin) + " to " +
                                            std::to_string(result.shared->end - 1) +
                                            " are in both, expected separate " + what);
  }
  return std::move(result.columns);
}

inline bool contains(std::span<const column_range> ranges, std::int64_t column) {
  const auto after =
      std::upper_bound(ranges.begin(), ranges.end(), column,
                       [](std::int64_t c, const column_range& r) { return c < r.begin; });
  return after != ranges.begin() && column < (after - 1)->end;
}

inline std::int64_t count(std::span<const column_range> ranges) {
  std::int64_t total = 0;
  for (const column_range& r : ranges) {
    total += r.end - r.begin;
  }
  return total;
}

}  // namespace softfold::core
