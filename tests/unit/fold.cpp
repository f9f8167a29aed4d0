// SPDX-License-Identifier: Apache-2.0
// The fold templates visit each element once, in the documented shape, over any monoid.
#include <core/fold.hpp>
#include <core/reference.hpp>
#include <core/topk.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace core = softfold::core;

namespace {

/// Concatenation with parentheses: shows order and shape, and is not commutative.
struct shape {
  using value_type = std::string;
  static std::string identity() { return ""; }
  static std::string combine(const std::string& a, const std::string& b) {
    return a.empty() ? b : b.empty() ? a : "(" + a + b + ")";
  }
};

std::string letter(std::int64_t i) { return std::string(1, static_cast<char>('a' + i)); }

/// Bits of which elements were folded, and how often altogether: exact, so that all shapes agree.
struct census {
  struct value_type {
    std::uint64_t count = 0;
    std::uint64_t weighted = 0;
    bool operator==(const value_type&) const = default;
  };
  static value_type identity() { return {}; }
  static value_type combine(value_type a, value_type b) {
    return {a.count + b.count, a.weighted + b.weighted};
  }
  static value_type lift(std::int64_t i) {
    const auto u = static_cast<std::uint64_t>(i) + 1;
    return {1, u * u * 0x9e3779b97f4a7c15u};
  }
};

constexpr std::int64_t sizes[] = {0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 100, 1000, 4097};

}  // namespace

TEST_SUITE_BEGIN("fold");

TEST_CASE("shapes and order") {
  CHECK(core::fold_serial<shape>(4, letter) == "(((ab)c)d)");
  CHECK(core::fold_tree<shape>(4, letter) == "((ab)(cd))");
  CHECK(core::fold_tree<shape>(5, letter) == "((ab)(c(de)))");
  CHECK(core::fold_tile<shape>(5, 2, letter) == "(((ab)(cd))e)");
  CHECK(core::fold_tile<shape>(4, 4, letter) == "(((ab)c)d)");
  CHECK(core::fold_tile<shape>(3, 100, letter) == "((ab)c)");
}

TEST_CASE("nothing folds to the identity, one element to itself") {
  for (const std::int64_t n : {std::int64_t{0}, std::int64_t{-1}}) {
    CHECK(core::fold_serial<shape>(n, letter).empty());
    CHECK(core::fold_tree<shape>(n, letter).empty());
    CHECK(core::fold_tile<shape>(n, 8, letter).empty());
  }
  CHECK(core::fold_serial<shape>(1, letter) == "a");
  CHECK(core::fold_tree<shape>(1, letter) == "a");
  CHECK(core::fold_tile<shape>(1, 8, letter) == "a");
}

TEST_CASE("every element once, whatever the shape") {
  for (const std::int64_t n : sizes) {
    CAPTURE(n);
    census::value_type expected;
    for (std::int64_t i = 0; i < n; ++i) {
      expected = census::combine(expected, census::lift(i));
    }
    CHECK(core::fold_serial<census>(n, census::lift) == expected);
    CHECK(core::fold_tree<census>(n, census::lift) == expected);
    for (const std::int64_t tile : {1, 2, 5, 32, 33, 5000}) {
      CAPTURE(tile);
      CHECK(core::fold_tile<census>(n, tile, census::lift) == expected);
    }
  }
}

TEST_CASE_TEMPLATE("serial, tiled and tree softmax folds agree with the oracle", T, float, double) {
  using M = core::max_sum_monoid<T>;
  using wide = core::reference::wide_t<T>;
  const wide u = std::numeric_limits<T>::epsilon() / 2;
  for (const std::int64_t n : sizes) {
    const unsigned seed = 11 + static_cast<unsigned>(n);
    CAPTURE(seed);
    std::mt19937 generator(seed);
    std::normal_distribution<double> normal(0, 5);
    std::vector<T> x(static_cast<std::size_t>(n));
    for (T& value : x) {
      value = static_cast<T>(normal(generator));
    }
    const auto exact = core::reference::widen(std::span<const T>(x));
    const auto expected = core::reference::fold(std::span<const wide>(exact));
    const auto lift = [&](std::int64_t i) { return M::lift(x[static_cast<std::size_t>(i)]); };
    // Each combine on the way of an element to the root rounds its share by at most 6 u.
    const auto check = [&](softfold::max_sum<T> state, std::int64_t depth) {
      CAPTURE(depth);
      if (n == 0) {
        CHECK(state == M::identity());
        return;
      }
      CHECK(static_cast<wide>(state.max) == expected.max());
      CHECK(std::abs(static_cast<wide>(state.sum) - expected.sum) <=
            static_cast<wide>(6 * depth) * u * expected.sum);
    };
    const auto log2n = static_cast<std::int64_t>(std::ceil(std::log2(static_cast<double>(n) + 1)));
    check(core::fold_serial<M>(n, lift), n);
    check(core::fold_tile<M>(n, 32, lift), 32 + n / 32 + 1);
    check(core::fold_tree<M>(n, lift), log2n + 1);
  }
}

TEST_CASE("softmax and top-k in one fold: one answer in every shape") {
  constexpr int k = 4;
  using M = core::softmax_topk_monoid<float, k>;
  static_assert(core::monoid<M>);
  std::mt19937 generator(5);
  std::uniform_int_distribution<int> few(-3, 3);
  for (const std::int64_t n : sizes) {
    CAPTURE(n);
    std::vector<float> x(static_cast<std::size_t>(n));
    for (float& value : x) {
      value = static_cast<float>(few(generator));  // many ties
    }
    const auto lift = [&](std::int64_t i) {
      const float value = x[static_cast<std::size_t>(i)];
      return M::value_type{core::max_sum_monoid<float>::lift(value),
                           core::topk_monoid<float, k>::lift(value, i)};
    };
    const auto chosen = static_cast<std::size_t>(n < k ? n : k);
    const auto expected = core::reference::topk(std::span<const float>(x), chosen);
    for (const auto& state : {core::fold_serial<M>(n, lift), core::fold_tile<M>(n, 32, lift),
                              core::fold_tree<M>(n, lift)}) {
      for (std::size_t i = 0; i < chosen; ++i) {
        CHECK(state.second.items[i].index == expected[i]);
        CHECK(state.second.items[i].value == x[static_cast<std::size_t>(expected[i])]);
      }
    }
  }
}

TEST_SUITE_END();
