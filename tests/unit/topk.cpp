// SPDX-License-Identifier: Apache-2.0
// The order of top-k.
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

TEST_SUITE_END();
