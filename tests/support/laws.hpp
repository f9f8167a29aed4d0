// SPDX-License-Identifier: Apache-2.0
// The laws that every state of a row keeps, whoever folds it: nothing added is nothing changed, any
// split of a row in any tree is the row's state within the bounds, NaN and infinities win from any
// side, and the public state says the same.
#pragma once

#include <softfold/max_sum.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace softfold::test {

using columns = std::vector<std::int64_t>;

/// A kind of state under test: a monoid with what folds elements into it and what it says.
///   real                     the arithmetic's type; rows are of it
///   monoid                   core::monoid
///   fold(row, columns)       the state of some elements; nothing if they are not for this state
///   wrong(state, row, n)     empty, or what is wrong with it as the state of the whole row after n
///                            combinations
/// and, if there is a public state, again(state): the state made of it.
template <class K>
concept state_kind = requires(const K& kind, const std::vector<typename K::real>& row,
                              const columns& part, const typename K::state& state) {
  { kind.monoid.identity() } -> std::same_as<typename K::state>;
  { kind.monoid.combine(state, state) } -> std::same_as<typename K::state>;
  { kind.fold(row, part) } -> std::same_as<std::optional<typename K::state>>;
  { kind.wrong(state, row, 1) } -> std::same_as<std::string>;
};

/// The exact state of a scaled row: logsumexp, or what decides where there is none.
struct exact_fold {
  long double max = -std::numeric_limits<long double>::infinity();
  long double lse = max;
  bool nan = false;
};

template <class T>
exact_fold fold_exactly(const std::vector<T>& row, long double scale) {
  exact_fold exact;
  const auto scaled = [scale](T x) {  // a scale of 0 leaves -infinity, and makes all others equal
    const auto wide = static_cast<long double>(x);
    return scale != 0                                             ? scale * wide
           : wide > -std::numeric_limits<long double>::infinity() ? 0
                                                                  : wide;
  };
  for (const T x : row) {
    exact.nan = exact.nan || std::isnan(x);
    exact.max = std::max(exact.max, scaled(x));
  }
  exact.lse = exact.max;
  if (std::isfinite(exact.max) && !exact.nan) {
    long double sum = 0;
    for (const T x : row) {
      sum += std::exp(scaled(x) - exact.max);
    }
    exact.lse += std::log(sum);
  }
  return exact;
}

/// Whether (max, sum) is the row's within `relative` u of the sum, and one of the maximum.
template <class T>
std::string wrong_max_sum(const max_sum<T>& state, const std::vector<T>& row, double scale,
                          double relative) {
  constexpr long double u = std::numeric_limits<T>::epsilon() / 2;
  const exact_fold exact = fold_exactly(row, static_cast<long double>(scale));
  const auto max = static_cast<long double>(state.max);
  const long double found = max + std::log(static_cast<long double>(state.sum));
  const bool right = exact.nan                   ? std::isnan(state.max)
                     : !std::isfinite(exact.max) ? max == exact.max
                     : std::abs(max - exact.max) > u * std::abs(exact.max)
                         ? false
                         : std::abs(found - exact.lse) <=
                               (static_cast<long double>(relative) + std::abs(exact.lse)) * u;
  std::ostringstream text;
  text << "(" << state.max << ", " << state.sum << "), exactly (" << exact.max << "; logsumexp "
       << exact.lse << (exact.nan ? "; NaN)" : ")");
  return right ? "" : text.str();
}

/// Whether a sum is that of the terms, which may cancel.
template <class T>
std::string wrong_sum(double found, const std::vector<T>& terms, double relative) {
  constexpr long double u = std::numeric_limits<T>::epsilon() / 2;
  long double sum = 0;
  long double magnitude = 0;
  for (const T term : terms) {
    sum += static_cast<long double>(term);
    magnitude += std::abs(static_cast<long double>(term));
  }
  const bool right = std::isfinite(magnitude)
                         ? std::abs(static_cast<long double>(found) - sum) <=
                               static_cast<long double>(relative) * u * magnitude
                         : !std::isfinite(found);
  std::ostringstream text;
  text << found << ", exactly " << sum;
  return right ? "" : text.str();
}

/// Rows to try: ordinary ones of some lengths, and such as hold what is not.
template <class T>
std::vector<std::vector<T>> law_rows(unsigned seed) {
  constexpr T inf = std::numeric_limits<T>::infinity();
  const T nan = std::numeric_limits<T>::quiet_NaN();
  std::mt19937 random(seed);
  std::vector<std::vector<T>> rows;
  for (const double deviation : {1.0, 30.0}) {
    for (const std::size_t n : {1U, 2U, 3U, 17U, 64U, 500U}) {
      std::normal_distribution<double> normal(0, deviation);
      std::vector<T> row(n);
      std::generate(row.begin(), row.end(), [&] { return static_cast<T>(normal(random)); });
      rows.push_back(row);
    }
  }
  rows.push_back({});
  rows.push_back({-inf, -inf, -inf});
  rows.push_back({-inf, T{3}, -inf, T{-5}, -inf});
  for (const std::vector<T>& values : {std::vector<T>{nan}, {inf}, {inf, -inf}, {nan, inf, -inf}}) {
    std::vector<T> row = rows[4];
    for (std::size_t i = 0; i < values.size(); ++i) {
      row[5 * i + 3] = values[i];
    }
    rows.push_back(row);
  }
  return rows;
}

/// Every law, on one kind of state.
template <state_kind Kind>
void check_laws(const Kind& kind, unsigned seed) {
  using state = typename Kind::state;
  const auto& monoid = kind.monoid;
  std::mt19937 random(seed);
  for (const auto& row : law_rows<typename Kind::real>(seed)) {
    columns all(row.size());
    std::iota(all.begin(), all.end(), 0);
    CAPTURE(row.size());
    const std::optional<state> whole = kind.fold(row, all);
    if (!whole) {
      continue;
    }
    CHECK(kind.wrong(*whole, row, 0) == "");
    CHECK(kind.wrong(monoid.combine(*whole, monoid.identity()), row, 1) == "");
    CHECK(kind.wrong(monoid.combine(monoid.identity(), *whole), row, 1) == "");
    CHECK(kind.wrong(monoid.combine(monoid.combine(monoid.identity(), monoid.identity()), *whole),
                     row, 2) == "");
    if constexpr (requires { kind.again(*whole); }) {
      CHECK(kind.wrong(kind.again(*whole), row, 1) == "");
    }
    for (int round = 0; round < 30; ++round) {
      std::vector<columns> parts(1 + random() % 9);
      std::shuffle(all.begin(), all.end(), random);
      for (const std::int64_t column : all) {
        parts[random() % parts.size()].push_back(column);
      }
      std::vector<state> states;
      for (const columns& part : parts) {
        const std::optional<state> folded = kind.fold(row, part);
        REQUIRE(folded);
        states.push_back(*folded);
      }
      while (states.size() > 1) {  // a random tree
        std::shuffle(states.begin(), states.end(), random);
        const state last = states.back();
        states.pop_back();
        states.back() = round % 2 == 0 ? monoid.combine(states.back(), last)
                                       : monoid.combine(last, states.back());
      }
      CHECK(kind.wrong(states[0], row, static_cast<int>(parts.size())) == "");
    }
  }
}

}  // namespace softfold::test
