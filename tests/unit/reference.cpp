// SPDX-License-Identifier: Apache-2.0
// The oracle against values worked out by hand (or to 20 digits by other means) and against
// itself in wider arithmetic.
#include <core/reference.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <vector>

namespace reference = softfold::core::reference;
using softfold::empty_row;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

template <class Wide>
bool near(Wide a, Wide b) {
  return std::abs(a - b) <= 4 * std::numeric_limits<Wide>::epsilon() * std::abs(b);
}

template <class Wide>
std::span<const Wide> view(const std::vector<Wide>& row) {
  return row;
}

/// ln 2, ln 3 ...: a row of logarithms has rational softmax.
template <class Wide>
std::vector<Wide> logarithms(std::initializer_list<int> numbers) {
  std::vector<Wide> row;
  for (const int n : numbers) {
    row.push_back(std::log(static_cast<Wide>(n)));
  }
  return row;
}

}  // namespace

TEST_SUITE_BEGIN("reference");

TEST_CASE_TEMPLATE("softmax of logarithms is rational", Wide, double, long double) {
  const auto row = logarithms<Wide>({1, 2, 3, 4});
  const auto y = reference::softmax(view(row));
  const auto squared = reference::softmax(view(row), 2.0);
  const auto inverse = reference::softmax(view(row), -1.0);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto n = static_cast<Wide>(i + 1);
    CHECK(near(y[i], n / 10));
    CHECK(near(squared[i], n * n / 30));
    CHECK(near(inverse[i], 12 / (25 * n)));
  }
  CHECK(near(reference::logsumexp(view(row)), std::log(Wide{10})));
  CHECK(near(reference::logsumexp(view(row), 2.0), std::log(Wide{30})));
  const auto log_y = reference::log_softmax(view(row));
  CHECK(near(log_y[0], -std::log(Wide{10})));
  CHECK(near(log_y[3], std::log(Wide{4}) - std::log(Wide{10})));
}

TEST_CASE_TEMPLATE("forty digits of a small row", Wide, double, long double) {
  const std::vector<Wide> row{-1, 0, 1, 2};
  const auto y = reference::softmax(view(row));
  CHECK(near(y[0], static_cast<Wide>(0.0320586032800849884508114701313458844371L)));
  CHECK(near(y[3], static_cast<Wide>(0.6439142598879723117616998532555789540086L)));
  CHECK(near(reference::logsumexp(view(row)),
             static_cast<Wide>(2.440189698561195330492722301326160073350L)));
}

TEST_CASE_TEMPLATE("a shift changes nothing", Wide, double, long double) {
  const std::vector<Wide> row{-1, 0, 1, 2};
  std::vector<Wide> shifted = row;
  for (Wide& x : shifted) {
    x += 10000000;
  }
  CHECK(reference::softmax(view(shifted)) == reference::softmax(view(row)));
  CHECK(reference::log_softmax(view(shifted)) == reference::log_softmax(view(row)));
  CHECK(near(reference::logsumexp(view(shifted)), 10000000 + reference::logsumexp(view(row))));
  // Scaled by a number whose products round: the differences do not feel it.
  const auto a = reference::softmax(view(shifted), 0.7);
  const auto b = reference::softmax(view(row), 0.7);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(near(a[i], b[i]));
  }
}

TEST_CASE("nothing") {
  const std::vector<double> row;
  CHECK(reference::softmax(view(row)).empty());
  CHECK(reference::log_softmax(view(row)).empty());
  CHECK(reference::logsumexp(view(row)) == -infinity);
  CHECK(reference::topk(view(row), 0).empty());
}

TEST_CASE("special rows") {
  const std::vector<double> masked{-infinity, 1, -infinity};
  CHECK(reference::softmax(view(masked)) == std::vector<double>{0, 1, 0});
  CHECK(reference::log_softmax(view(masked)) == std::vector<double>{-infinity, 0, -infinity});
  CHECK(reference::logsumexp(view(masked)) == 1);

  const std::vector<double> empty{-infinity, -infinity};
  CHECK(std::isnan(reference::softmax(view(empty))[1]));
  CHECK(std::isnan(reference::log_softmax(view(empty))[0]));
  CHECK(reference::softmax(view(empty), 1, empty_row::zero) == std::vector<double>{0, 0});
  CHECK(reference::log_softmax(view(empty), 1, empty_row::zero) ==
        std::vector<double>{-infinity, -infinity});
  CHECK(reference::logsumexp(view(empty)) == -infinity);

  const std::vector<double> infinite{1, infinity, -infinity};
  CHECK(std::isnan(reference::softmax(view(infinite), 1, empty_row::zero)[2]));
  CHECK(std::isnan(reference::log_softmax(view(infinite))[1]));
  CHECK(reference::logsumexp(view(infinite)) == infinity);

  for (const auto& row : {std::vector<double>{not_a_number, -infinity},
                          {infinity, not_a_number},
                          {1, not_a_number, 2}}) {
    for (const double scale : {1.0, 0.0, -1.0}) {
      CHECK(std::isnan(reference::softmax(view(row), scale, empty_row::zero)[0]));
      CHECK(std::isnan(reference::log_softmax(view(row), scale, empty_row::zero)[1]));
      CHECK(std::isnan(reference::logsumexp(view(row), scale)));
    }
  }
}

TEST_CASE("scale") {
  const std::vector<double> row{infinity, 5, -infinity, -7};
  SUBCASE("zero counts every number, and +infinity, as 0") {
    CHECK(reference::softmax(view(row), 0.0) == std::vector<double>{1.0 / 3, 1.0 / 3, 0, 1.0 / 3});
    CHECK(reference::logsumexp(view(row), 0.0) == std::log(3.0));
    CHECK(reference::logsumexp(view(row), -0.0) == std::log(3.0));
    CHECK(reference::log_softmax(view(row), 0.0)[2] == -infinity);
  }
  SUBCASE("negative: -infinity becomes +infinity") {
    CHECK(reference::logsumexp(view(row), -1.0) == infinity);
    const std::vector<double> other{infinity, 5, -7};
    CHECK(reference::softmax(view(other), -1.0)[0] == 0);
    CHECK(near(reference::logsumexp(view(other), -1.0), 7 + std::log1p(std::exp(-12.0))));
    const std::vector<double> all{infinity, infinity};
    CHECK(reference::logsumexp(view(all), -1.0) == -infinity);
    CHECK(reference::softmax(view(all), -1.0, empty_row::zero) == std::vector<double>{0, 0});
  }
  SUBCASE("is rounded to float for inputs of up to 32 bits only") {
    CHECK(reference::effective_scale<double>(0.7) == static_cast<double>(0.7F));
    CHECK(reference::effective_scale<long double>(0.7) == static_cast<long double>(0.7));
    CHECK(reference::effective_scale<double>(1e-60) == 0);
  }
  SUBCASE("a product beyond float's range is infinite, for doubles that stand for floats") {
    const std::vector<double> large{1e10, 1e8, -1e10};
    CHECK(reference::logsumexp(view(large), 1e30) == infinity);
    CHECK(std::isnan(reference::softmax(view(large), 1e30)[1]));
    const std::vector<double> low{1e8, -1e10};
    CHECK(reference::softmax(view(low), 1e30) == std::vector<double>{1, 0});
    CHECK(reference::logsumexp(view(low), 1e30) == 1e8 * reference::effective_scale<double>(1e30));
    CHECK(reference::log_softmax(view(low), 1e30)[1] == -infinity);
    const std::vector<double> all{-1e10, -1e10};
    CHECK(reference::logsumexp(view(all), 1e30) == -infinity);
    CHECK(reference::softmax(view(all), 1e30, empty_row::zero) == std::vector<double>{0, 0});
    const std::vector<long double> wide{1e10L};
    CHECK(reference::logsumexp(std::span<const long double>(wide), 1e30) == 1e10L * 1e30);
  }
}

TEST_CASE("a million elements") {
  const std::vector<double> row(1000000, 3.25);
  CHECK(near(reference::fold(view(row)).sum, 1e6));
  CHECK(near(reference::softmax(view(row))[999999], 1e-6));
  // Terms that a plain running sum would lose: 1 + 2^20 terms of e^-40.
  std::vector<double> tail((1 << 20) + 1, -40.0);
  tail[0] = 0;
  const double rest = 0x1p20 * std::exp(-40.0);
  CHECK(near(reference::fold(view(tail)).sum - 1, (1 + rest) - 1));
}

TEST_CASE("double and long double agree") {
  std::vector<double> row;
  std::vector<long double> wider;
  for (int i = 0; i < 1000; ++i) {
    row.push_back(static_cast<double>(static_cast<float>(40 * std::sin(i * 12.9898))));
    wider.push_back(static_cast<long double>(row.back()));
  }
  const auto y = reference::softmax(view(row), 2.5);
  const auto w = reference::softmax(view(wider), 2.5);
  for (std::size_t i = 0; i < row.size(); ++i) {
    // The exponent's own rounding weighs as much as its magnitude, here up to 200.
    REQUIRE(std::abs(static_cast<long double>(y[i]) / w[i] - 1) < 256 * 0x1p-53L);
  }
}

TEST_CASE("top-k order") {
  const std::vector<double> row{1,         -0.0, not_a_number, infinity, 0.0, -not_a_number, 1,
                                -infinity, -2};
  using columns = std::vector<std::int64_t>;
  CHECK(reference::topk(view(row), 9) == columns{2, 5, 3, 0, 6, 1, 4, 8, 7});
  CHECK(reference::topk(view(row), 3) == columns{2, 5, 3});
  CHECK(reference::topk(view(row), 0).empty());
}

TEST_CASE("softmax + top-k") {
  const auto row = logarithms<double>({3, 1, 4, 2});
  const auto top = reference::softmax_topk(view(row), 2);
  CHECK(top.indices == std::vector<std::int64_t>{2, 0});
  CHECK(top.logits == std::vector<double>{row[2], row[0]});
  CHECK(near(top.probabilities[0], 0.4));
  CHECK(near(top.probabilities[1], 0.3));
  CHECK(near(top.lse, std::log(10.0)));
  // A negative scale turns the probabilities round, not the ranking.
  const auto turned = reference::softmax_topk(view(row), 2, -1);
  CHECK(turned.indices == top.indices);
  CHECK(near(turned.probabilities[0], 0.12));
  CHECK(near(turned.probabilities[1], 0.16));
}

TEST_CASE("inputs widen exactly") {
  static_assert(std::is_same_v<reference::wide_t<softfold::half>, double>);
  static_assert(std::is_same_v<reference::wide_t<const double>, long double>);
  CHECK(reference::widen(softfold::half(1.5F)) == 1.5);
  CHECK(reference::widen(softfold::bfloat16(-0.25F)) == -0.25);
  CHECK(reference::widen(0.1F) == static_cast<double>(0.1F));
  CHECK(reference::widen(0.1) == static_cast<long double>(0.1));
}

TEST_SUITE_END();
