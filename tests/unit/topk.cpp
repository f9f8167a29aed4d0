// SPDX-License-Identifier: Apache-2.0
// The order of top-k, and sorted lists under insertion and merge.
#include <core/reference.hpp>
#include <core/topk.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <vector>

namespace core = softfold::core;
using core::order_key;
using core::ranked;
using core::ranks_before;

namespace {

template <class T>
using bits_t = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

template <class T>
std::vector<T> nans() {
  using limits = std::numeric_limits<T>;
  const auto quiet = std::bit_cast<bits_t<T>>(limits::quiet_NaN());
  const auto sign = std::bit_cast<bits_t<T>>(T{-0.0});
  const auto infinity = std::bit_cast<bits_t<T>>(limits::infinity());
  std::vector<T> values;
  for (const bits_t<T> bits : {quiet, static_cast<bits_t<T>>(infinity + 1),
                               static_cast<bits_t<T>>(quiet + 77), static_cast<bits_t<T>>(~sign)}) {
    values.push_back(std::bit_cast<T>(bits));
    values.push_back(std::bit_cast<T>(static_cast<bits_t<T>>(bits | sign)));
  }
  return values;
}

/// Non-NaN values from the last to the first in rank.
template <class T>
std::vector<T> ascending() {
  using limits = std::numeric_limits<T>;
  return {-limits::infinity(),
          limits::lowest(),
          T{-1},
          -limits::min(),
          -limits::denorm_min(),
          T{0},
          limits::denorm_min(),
          limits::min(),
          T{1},
          std::nextafter(T{1}, T{2}),
          limits::max(),
          limits::infinity()};
}

template <class T>
std::vector<T> awkward_row(std::size_t n, unsigned seed) {
  std::mt19937 generator(seed);
  auto pool = ascending<T>();
  const auto bad = nans<T>();
  pool.insert(pool.end(), bad.begin(), bad.end());
  pool.push_back(T{-0.0});
  std::uniform_int_distribution<std::size_t> pick(0, pool.size() - 1);
  std::vector<T> row(n);
  for (T& value : row) {
    value = pool[pick(generator)];
  }
  return row;
}

template <class T, int K>
void check_list(const core::topk_list<T, K>& list, const std::vector<T>& row) {
  const std::size_t chosen = std::min<std::size_t>(K, row.size());
  const auto expected = core::reference::topk(std::span<const T>(row), chosen);
  for (std::size_t i = 0; i < chosen; ++i) {
    CAPTURE(i);
    REQUIRE(list.items[i].index == expected[i]);
    CHECK(std::bit_cast<bits_t<T>>(list.items[i].value) ==
          std::bit_cast<bits_t<T>>(row[static_cast<std::size_t>(expected[i])]));
  }
  for (std::size_t i = chosen; i < K; ++i) {
    CHECK(list.items[i].index == std::numeric_limits<std::int64_t>::max());
  }
}

}  // namespace

TEST_SUITE_BEGIN("topk");

TEST_CASE_TEMPLATE("keys are in the order of the values", T, float, double) {
  const auto values = ascending<T>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(order_key(values[i]) > 0);
    for (std::size_t j = 0; j < values.size(); ++j) {
      CAPTURE(values[i]);
      CAPTURE(values[j]);
      CHECK((order_key(values[i]) < order_key(values[j])) == (i < j));
    }
    for (const T bad : nans<T>()) {
      CHECK(order_key(bad) > order_key(values[i]));
    }
  }
  CHECK(order_key(T{0}) == order_key(T{-0.0}));
  for (const T a : nans<T>()) {
    for (const T b : nans<T>()) {
      CHECK(order_key(a) == order_key(b));
    }
  }
}

TEST_CASE_TEMPLATE("a key gives its value back", T, float, double) {
  for (const T value : ascending<T>()) {
    CHECK(core::value_of_key<T>(order_key(value)) == value);
  }
  CHECK_FALSE(std::signbit(core::value_of_key<T>(order_key(T{-0.0}))));
  for (const T bad : nans<T>()) {
    CHECK(std::isnan(core::value_of_key<T>(order_key(bad))));
  }
}

TEST_CASE("keys of a dense sample of floats are monotone") {
  std::uint32_t last = order_key(0.0F);
  unsigned wrong = 0;
  for (std::uint32_t u = 1; u <= 0x7f800000u; u += 977) {
    const std::uint32_t key = order_key(std::bit_cast<float>(u));
    const std::uint32_t mirrored = order_key(std::bit_cast<float>(u | 0x80000000u));
    wrong += key > last && mirrored < order_key(0.0F) ? 0u : 1u;
    last = key;
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("before: larger first, equal by lower index", T, float, double) {
  CHECK(ranks_before<T>({T{2}, 9}, {T{1}, 0}));
  CHECK_FALSE(ranks_before<T>({T{1}, 0}, {T{2}, 9}));
  CHECK(ranks_before<T>({T{1}, 3}, {T{1}, 4}));
  CHECK_FALSE(ranks_before<T>({T{1}, 4}, {T{1}, 3}));
  CHECK_FALSE(ranks_before<T>({T{1}, 4}, {T{1}, 4}));
  CHECK(ranks_before<T>({T{-0.0}, 0}, {T{0}, 1}));
  CHECK(ranks_before<T>({T{0}, 0}, {T{-0.0}, 1}));
  const auto bad = nans<T>();
  for (std::size_t i = 0; i + 1 < bad.size(); ++i) {
    CHECK(ranks_before<T>({bad[i], 0}, {bad[i + 1], 1}));
    CHECK(ranks_before<T>({bad[i + 1], 0}, {bad[i], 1}));
    CHECK(ranks_before<T>({bad[i], 5}, {std::numeric_limits<T>::infinity(), 1}));
  }
  // An element of -infinity is still an element.
  CHECK(ranks_before<T>({-std::numeric_limits<T>::infinity(), 123456}, ranked<T>{}));
}

TEST_CASE_TEMPLATE("before is a strict total order", T, float, double) {
  const auto row = awkward_row<T>(60, 21);
  std::vector<ranked<T>> all;
  for (std::size_t i = 0; i < row.size(); ++i) {
    all.push_back({row[i], static_cast<std::int64_t>(i)});
  }
  unsigned wrong = 0;
  for (const auto& a : all) {
    for (const auto& b : all) {
      wrong += ranks_before(a, b) + ranks_before(b, a) != (a.index == b.index ? 0 : 1);
      for (const auto& c : all) {
        wrong += ranks_before(a, b) && ranks_before(b, c) && !ranks_before(a, c);
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("insertion keeps the best in order", T, float, double) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    const auto row = awkward_row<T>(seed, seed);
    core::topk_list<T, 8> forwards{};
    core::topk_list<T, 8> backwards{};
    core::topk_list<T, 1> best{};
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::size_t j = row.size() - 1 - i;
      forwards.insert({row[i], static_cast<std::int64_t>(i)});
      backwards.insert({row[j], static_cast<std::int64_t>(j)});
      best.insert({row[i], static_cast<std::int64_t>(i)});
    }
    check_list(forwards, row);
    check_list(backwards, row);
    check_list(best, row);
  }
}

TEST_CASE_TEMPLATE("merging parts in any order gives the one answer", T, float, double) {
  using M = core::topk_monoid<T, 6>;
  static_assert(core::monoid<M>);
  for (unsigned seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    const auto row = awkward_row<T>(40, 100 + seed);
    std::mt19937 generator(seed);
    std::vector<typename M::value_type> parts(1 + seed % 9, M::identity());
    std::uniform_int_distribution<std::size_t> any(0, parts.size() - 1);
    for (std::size_t i = 0; i < row.size(); ++i) {
      auto& part = parts[any(generator)];
      part = M::combine(M::lift(row[i], static_cast<std::int64_t>(i)), part);
    }
    while (parts.size() > 1) {  // a random tree
      std::shuffle(parts.begin(), parts.end(), generator);
      const auto last = parts.back();
      parts.pop_back();
      parts.back() = M::combine(parts.back(), last);
    }
    check_list(parts.front(), row);
    check_list(M::combine(parts.front(), M::identity()), row);
    check_list(M::combine(M::identity(), parts.front()), row);
  }
}

TEST_CASE("a list of fewer elements than K ends in absent elements") {
  using M = core::topk_monoid<float, 3>;
  const auto two = M::combine(M::lift(-std::numeric_limits<float>::infinity(), 4),
                              M::lift(-std::numeric_limits<float>::infinity(), 2));
  CHECK(two.items[0].index == 2);
  CHECK(two.items[1].index == 4);
  CHECK(two.items[2].index == std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("sorted lists of a run-time length: the same as the monoid, in place") {
  constexpr int k = 6;
  using lists = core::topk_monoid<float, k>;
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    lists::value_type sides[2];
    float values[2][k];
    int indices[2][k];
    for (int side = 0; side < 2; ++side) {
      const int present = static_cast<int>(random() % (k + 1));
      for (int i = 0; i < present; ++i) {
        sides[side].insert({static_cast<float>(static_cast<int>(random() % 5)) - 2, 2 * i + side});
      }
      for (int i = 0; i < k; ++i) {
        const auto& item = sides[side].items[i];
        const bool absent = item.index == std::numeric_limits<std::int64_t>::max();
        values[side][i] = absent ? 99.0F : item.value;
        indices[side][i] = absent ? -3 : static_cast<int>(item.index);
      }
    }
    const auto expected = lists::combine(sides[0], sides[1]);
    core::combine_sorted<float, int>({values[0], indices[0]}, {values[1], indices[1]}, k);
    for (int i = 0; i < k; ++i) {
      CAPTURE(round);
      CAPTURE(i);
      const bool absent = expected.items[i].index == std::numeric_limits<std::int64_t>::max();
      CHECK(indices[1][i] == (absent ? -1 : static_cast<int>(expected.items[i].index)));
      CHECK(values[1][i] == expected.items[i].value);
    }
  }
}

TEST_SUITE_END();
