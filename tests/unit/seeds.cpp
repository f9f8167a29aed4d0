// SPDX-License-Identifier: Apache-2.0
// The seeds agree with the oracle where they are meant to work, and fail as their text says.
#include <core/reference.hpp>
#include <core/seeds.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace reference = softfold::core::reference;
namespace seeds = softfold::core::seeds;

namespace {

template <class T>
std::vector<T> normal_row(std::size_t n, unsigned seed, double deviation) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, deviation);
  std::vector<T> row(n);
  for (T& x : row) {
    x = static_cast<T>(normal(generator));
  }
  return row;
}

template <class T>
using seed = void (*)(std::span<const T>, std::span<T>);

template <class T>
void check_against_reference(seed<T> softmax, const std::vector<T>& row) {
  using wide = reference::wide_t<T>;
  std::vector<T> y(row.size());
  softmax(row, y);
  const auto exact = reference::widen(std::span<const T>(row));
  const auto expected = reference::softmax(std::span<const wide>(exact));
  // A serial sum of n terms: n roundings, and a few for each exponential.
  const wide bound = static_cast<wide>(4 * row.size() + 64) *
                     static_cast<wide>(std::numeric_limits<T>::epsilon() / 2);
  for (std::size_t i = 0; i < row.size(); ++i) {
    CAPTURE(i);
    REQUIRE(std::abs(static_cast<wide>(y[i]) - expected[i]) <= bound * expected[i]);
  }
}

constexpr std::size_t sizes[] = {1, 2, 3, 16, 100, 1000};

}  // namespace

TEST_SUITE_BEGIN("seeds");

TEST_CASE_TEMPLATE("naive, safe and online softmax are softmax", T, float, double) {
  for (const std::size_t n : sizes) {
    CAPTURE(n);
    const auto row = normal_row<T>(n, 31 + static_cast<unsigned>(n), 3);
    check_against_reference<T>(seeds::softmax_naive<T>, row);
    check_against_reference<T>(seeds::softmax_safe<T>, row);
    check_against_reference<T>(seeds::softmax_online<T>, row);
  }
}

TEST_CASE_TEMPLATE("large elements: safe and online stand, naive does not", T, float, double) {
  auto row = normal_row<T>(100, 32, 3);
  for (T& x : row) {
    x += 1000;
  }
  check_against_reference<T>(seeds::softmax_safe<T>, row);
  check_against_reference<T>(seeds::softmax_online<T>, row);
  std::vector<T> y(row.size());
  seeds::softmax_naive<T>(row, y);
  CHECK(std::isnan(y[0]));
}

TEST_CASE_TEMPLATE("masked elements", T, float, double) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const std::vector<T> row{-infinity, -infinity, T{1}, -infinity, T{2}};
  for (const auto softmax :
       {seeds::softmax_naive<T>, seeds::softmax_safe<T>, seeds::softmax_online<T>}) {
    check_against_reference<T>(softmax, row);
  }
}

TEST_CASE_TEMPLATE("online softmax + top-k", T, float, double) {
  using wide = reference::wide_t<T>;
  for (const std::size_t n : sizes) {
    for (const std::size_t k : {std::size_t{0}, std::size_t{1}, std::size_t{5}, n}) {
      if (k > n) {
        continue;
      }
      CAPTURE(n);
      CAPTURE(k);
      auto row = normal_row<T>(n, 33 + static_cast<unsigned>(n), 3);
      for (T& x : row) {
        x = std::round(x);  // ties
      }
      std::vector<T> probabilities(k);
      std::vector<std::int64_t> columns(k);
      seeds::softmax_topk_online<T>(row, probabilities, columns);
      const auto exact = reference::widen(std::span<const T>(row));
      const auto expected = reference::softmax_topk(std::span<const wide>(exact), k);
      CHECK(columns == expected.indices);
      for (std::size_t i = 0; i < k; ++i) {
        CHECK(std::abs(static_cast<wide>(probabilities[i]) - expected.probabilities[i]) <=
              static_cast<wide>(std::numeric_limits<T>::epsilon()) * static_cast<wide>(2 * n + 32) *
                  expected.probabilities[i]);
      }
    }
  }
}

TEST_CASE("fewer elements above -infinity than k leave columns of -1") {
  const std::vector<float> row{1, -std::numeric_limits<float>::infinity(), 3};
  std::vector<float> probabilities(3);
  std::vector<std::int64_t> columns(3);
  seeds::softmax_topk_online<float>(row, probabilities, columns);
  CHECK(columns == std::vector<std::int64_t>{2, 0, -1});
  CHECK(probabilities[2] == 0);
}

TEST_SUITE_END();
