// SPDX-License-Identifier: Apache-2.0
// The sum over a row as it is, of f32 arithmetic: its terms and their places, that no split shows,
// and its error against long double.
#include <core/raw_sum.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace sampling = softfold::core::sampling;
namespace terms = sampling::raw_terms;
using sampling::raw_sum;
using sampling::raw_term;

namespace {

bool are_equal(const raw_sum& a, const raw_sum& b) {
  const auto same = [](const sampling::mass& x, const sampling::mass& y) {
    return x.low == y.low && x.high == y.high;
  };
  return a.top == b.top && same(a.words[0], b.words[0]) && same(a.words[1], b.words[1]) &&
         same(a.words[2], b.words[2]);
}

raw_sum sum_of(const std::vector<float>& x, std::size_t begin, std::size_t end) {
  raw_sum sum;
  for (std::size_t i = begin; i < end; ++i) {
    sum.add(x[i]);
  }
  return sum;
}

/// log of the sum of exp(x - largest).
long double exact_log(const std::vector<float>& x, float largest) {
  long double sum = 0;
  for (const float v : x) {
    sum += std::exp(static_cast<long double>(v) - static_cast<long double>(largest));
  }
  return std::log(sum);
}

/// docs/sampling.md's bound.
double bound(double elements) { return (6 + std::log2(elements) / 16) * 0x1p-24; }

}  // namespace

TEST_SUITE_BEGIN("raw_sum");

TEST_CASE("terms are exp(x) but for a factor") {
  std::mt19937_64 generator(91);
  double lowest = 1;
  double highest = -1;
  const auto check = [&](float x) {
    const raw_term term = sampling::raw_term_of(x);
    REQUIRE(term.factor < (1U << 24));
    const long double exact =
        std::exp(static_cast<long double>(x) - static_cast<long double>(terms::ln2) * term.n);
    const auto error = static_cast<double>(
        static_cast<long double>(term.factor) / (0x1.5ffffe4ac4645p+23L * exact) - 1);
    lowest = std::min(lowest, error);
    highest = std::max(highest, error);
  };
  for (const float most : {0.4F, 30.0F, 1000.0F, 65535.996F}) {
    std::uniform_real_distribution<float> of(-most, most);
    for (int i = 0; i < 300000; ++i) {
      check(of(generator));
    }
  }
  for (int n = -94000; n < 94000; ++n) {  // rests of either end
    const auto middle = static_cast<float>((n + 0.5) * 0.6931471805599453);
    check(middle);
    check(std::nextafter(middle, 1e6F));
    check(std::nextafter(middle, -1e6F));
  }
  INFO(lowest * 0x1p24, " to ", highest * 0x1p24);
  CHECK(highest - lowest < 5.6 * 0x1p-24);
}

TEST_CASE("the end of each place") {
  for (std::int32_t top = terms::lowest_top; top < 2960; ++top) {
    const float end = terms::end_of(top);
    REQUIRE(sampling::raw_term_of(end).place() == top);
    // Little of a place is behind it.
    REQUIRE(sampling::raw_term_of(end + 0.05F + std::abs(end) * 0x1p-22F).place() == top + 1);
  }
  CHECK(sampling::raw_top(-std::numeric_limits<float>::infinity()) == terms::lowest_top);
  CHECK(sampling::raw_top(0) == 0);
  CHECK(sampling::raw_top(-1e-30F) == 0);
}

TEST_CASE("neither order nor split shows") {
  std::mt19937_64 generator(92);
  for (const float spread : {0.0F, 1.0F, 20.0F, 200.0F, 60000.0F}) {
    std::normal_distribution<float> of(0, spread / 3 + 1e-6F);
    std::vector<float> x(3000);
    for (float& v : x) {
      v = std::clamp(of(generator), -65000.0F, 65000.0F);
    }
    x[17] = x[1900] = -std::numeric_limits<float>::infinity();
    x[18] = -1e30F;
    const raw_sum whole = sum_of(x, 0, x.size());
    CHECK(whole.top == sampling::raw_top(*std::max_element(x.begin(), x.end())));
    for (int i = 0; i < 20; ++i) {
      std::shuffle(x.begin(), x.end(), generator);
      const std::size_t a = generator() % (x.size() + 1);
      const std::size_t b = a + generator() % (x.size() - a + 1);
      raw_sum last = sum_of(x, b, x.size());
      raw_sum middle = sum_of(x, a, b);
      middle.add(sum_of(x, 0, a));
      last.add(middle);
      REQUIRE(are_equal(last, whole));
    }
  }
}

TEST_CASE("the logarithm's error") {
  std::mt19937_64 generator(93);
  for (const float spread : {1e-3F, 1.0F, 5.0F, 30.0F}) {
    for (const std::size_t count : {1U, 2U, 10U, 1000U, 100000U}) {
      std::normal_distribution<float> of(3, spread);
      std::vector<float> x(count);
      std::generate(x.begin(), x.end(), [&] { return of(generator); });
      const float largest = *std::max_element(x.begin(), x.end());
      const double log = sum_of(x, 0, count).log_over(largest);
      const auto exact = static_cast<double>(exact_log(x, largest));
      CAPTURE(spread);
      CAPTURE(count);
      CHECK(log >= 0);
      CHECK(std::abs(log - exact) <= bound(static_cast<double>(count)));
      if (count == 1) {
        CHECK(log == 0);
      }
      // Of a sum near 1 the rest is right.
      x = {20, 0, -3};
      CHECK(sum_of(x, 0, 3).log_over(20) ==
            doctest::Approx(static_cast<double>(exact_log(x, 20))).epsilon(1e-6));
    }
  }
}

// 2^31 elements so far below the largest one that each is far below the sum's last place.
TEST_CASE("very many small terms") {
  for (const float below : {0.0F, 5.0F, 15.0F, 21.48F, 30.0F, 44.0F, 60.0F}) {
    for (const float largest : {0.0F, 22.18F, 22.17F, -7.0F}) {
      raw_sum many;
      many.add(largest - below);
      for (int i = 0; i < 31; ++i) {
        many.add(many);
      }
      many.add(largest);
      const long double exact =
          std::log1p(0x1p31L * std::exp(static_cast<long double>(largest - below) -
                                        static_cast<long double>(largest)));
      CAPTURE(below);
      CAPTURE(largest);
      CHECK(std::abs(many.log_over(largest) - static_cast<double>(exact)) <= bound(0x1p31));
    }
  }
}

// A row that no library's random numbers are behind: what every version gives.
TEST_CASE("golden sums") {
  raw_sum sum;
  float largest = -10;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const float x = static_cast<float>(i * 2654435761U % 4096) / 32 - 64;
    sum.add(x);
    largest = std::max(largest, x);
  }
  CHECK(largest == 63.96875F);
  CHECK(sum.top == 2);
  const std::uint64_t words[] = {37087269808246853U, 220764337219290422U, 285485101906503583U};
  for (int i = 0; i < 3; ++i) {
    CHECK(sum.words[i].low == words[i]);
    CHECK(sum.words[i].high == 0);
  }
  CHECK(sum.log_over(largest) == sampling::natural_log(0x1.3a1203117d544p+3));
}

TEST_SUITE_END();
