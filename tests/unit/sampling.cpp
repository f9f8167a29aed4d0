// SPDX-License-Identifier: Apache-2.0
// Sampling's definition: Philox against its authors' known answers, the arithmetic of keys and
// masses against long double, the digits of a share.
#include <core/reference_sampling.hpp>
#include <core/sampling.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace sampling = softfold::core::sampling;
using softfold::core::philox4x32;
using softfold::core::philox_words;

namespace {

bool are_equal(const philox_words& a, const philox_words& b) {
  return a.a == b.a && a.b == b.b && a.c == b.c && a.d == b.d;
}

/// Random bits, among them very few and very many leading zeros and ones.
template <class Body>
void each_bits(int count, const Body& body) {
  std::mt19937_64 generator(81);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t bits = generator() >> (i % 64);
    body(bits);
    body(~bits);
  }
}

}  // namespace

TEST_SUITE_BEGIN("sampling");

TEST_CASE("Philox4x32: Random123's known answers") {
  constexpr std::uint32_t ones = 0xffffffffU;
  const philox_words zero = {0, 0, 0, 0};
  const philox_words full = {ones, ones, ones, ones};
  const philox_words pi = {0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U};
  CHECK(are_equal(philox4x32<7>(zero, 0, 0), {0x5f6fb709U, 0x0d893f64U, 0x4f121f81U, 0x4f730a48U}));
  CHECK(are_equal(philox4x32<7>(full, ones, ones),
                  {0x5207ddc2U, 0x45165e59U, 0x4d8ee751U, 0x8c52f662U}));
  CHECK(are_equal(philox4x32<7>(pi, 0xa4093822U, 0x299f31d0U),
                  {0x4dfccabaU, 0x190a87f0U, 0xc47362baU, 0xb6b5242aU}));
  CHECK(
      are_equal(philox4x32<10>(zero, 0, 0), {0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
  CHECK(are_equal(philox4x32<10>(full, ones, ones),
                  {0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
  CHECK(are_equal(philox4x32<10>(pi, 0xa4093822U, 0x299f31d0U),
                  {0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

TEST_CASE("where a token's bits are") {
  const sampling::noise n = {0x0123456789abcdefU, 0xfedcba9876543210U, 5};
  const philox_words first =
      philox4x32<7>({2, 10, 0x76543210U, 0xfedcba98U}, 0x89abcdefU, 0x01234567U);
  const philox_words more =
      philox4x32<10>({21, 11, 0x76543210U, 0xfedcba98U}, 0x89abcdefU, 0x01234567U);
  // Token 21 is number 5 of block 2: the high half of the third word.
  CHECK(sampling::random_bits(n, 21) ==
        (std::uint64_t{first.c >> 16} << 48 | std::uint64_t{more.a} << 16 | more.b >> 16));
  const sampling::noise far = {1, 2, 3};
  const std::int64_t token = (std::int64_t{5} << 32) + 9;
  const philox_words far_more = philox4x32<10>({9, 5U << 22 | 7, 2, 0}, 1, 0);
  CHECK((sampling::random_bits(far, token) & 0xffffffffffffU) ==
        (std::uint64_t{far_more.a} << 16 | far_more.b >> 16));
}

TEST_CASE("exponential numbers and keys are within 5 units in the last place") {
  each_bits(200000, [](std::uint64_t bits) {
    const long double exact = softfold::core::reference::exponential_number(bits);
    const double e = sampling::exponential_number(bits);
    REQUIRE(std::abs(static_cast<long double>(e) - exact) <= 5 * 0x1p-53L * exact);
    const long double key = -std::log(exact);
    REQUIRE(std::abs(static_cast<long double>(sampling::key_of(0, bits)) - key) <=
            5 * 0x1p-53L * std::max(std::abs(key), 1.0L));
  });
  CHECK(sampling::exponential_number(0) == 0x1p-65);
  CHECK(sampling::exponential_number(~std::uint64_t{0}) == doctest::Approx(65 * std::log(2)));
}

TEST_CASE("weights are rounded to the unit") {
  std::mt19937_64 generator(82);
  std::uniform_real_distribution<double> below(0, 37);
  for (int i = 0; i < 400000; ++i) {
    const double d = below(generator);
    const long double exact = std::exp(-static_cast<long double>(d)) * 0x1p50L;
    REQUIRE(std::abs(static_cast<long double>(sampling::weight_of(d)) - exact) <= 0.6L);
  }
  CHECK(sampling::weight_of(0) == std::uint64_t{1} << 50);
  CHECK(sampling::weight_of(36) == 0);
  CHECK(sampling::weight_of(std::numeric_limits<double>::infinity()) == 0);
}

TEST_CASE("masses carry, and shares are exact") {
  sampling::mass m = {~std::uint64_t{0}, 1};
  m.add(1);
  CHECK((m.low == 0 && m.high == 2));
  m.subtract({1, 0});
  CHECK((m.low == ~std::uint64_t{0} && m.high == 1));
  CHECK(sampling::mass{5, 1}.reaches({~std::uint64_t{0}, 0}));
  CHECK(!sampling::mass{5, 1}.reaches({6, 1}));
  CHECK(sampling::mass{0, 1}.value() == 0x1p14);

  const auto is = [](const sampling::mass& share, std::uint64_t high, std::uint64_t low) {
    return share.high == high && share.low == low;
  };
  CHECK(is(sampling::share_of(0.5, {10, 0}), 0, 5));
  CHECK(is(sampling::share_of(0.5, {11, 0}), 0, 6));
  CHECK(is(sampling::share_of(0.25, {0, 1}), 0, std::uint64_t{1} << 62));
  CHECK(is(sampling::share_of(0.25, {1, 1}), 0, (std::uint64_t{1} << 62) + 1));
  CHECK(is(sampling::share_of(0.75, {0, 4}), 3, 0));
  CHECK(is(sampling::share_of(0.5, {~std::uint64_t{0}, ~std::uint64_t{0} >> 15}),
           std::uint64_t{1} << 48, 0));
  CHECK(is(sampling::share_of(0, {1000, 7}), 0, 1));
  CHECK(is(sampling::share_of(std::nextafter(1.0, 0.0), {std::uint64_t{1} << 53, 0}), 0,
           (std::uint64_t{1} << 53) - 1));
}

TEST_CASE("parameters out of range") {
  using sampling::parameters;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto valid = [](const parameters& p) { return sampling::are_valid<float>(p); };
  CHECK(valid({}));
  CHECK(valid({0, 0, 1, 5, 0, 0}));
  CHECK(!valid({-1, 1, 0, 0, 0, 0}));
  CHECK(!valid({nan, 1, 0, 0, 0, 0}));
  CHECK(!valid({infinity, 1, 0, 0, 0, 0}));
  CHECK(!valid({1e-39, 1, 0, 0, 0, 0}));
  CHECK(sampling::are_valid<double>({1e-39, 1, 0, 0, 0, 0}));
  CHECK(!valid({1, 1.5, 0, 0, 0, 0}));
  CHECK(!valid({1, nan, 0, 0, 0, 0}));
  CHECK(!valid({1, 1, -0.1, 0, 0, 0}));
  CHECK(!valid({1, 1, nan, 0, 0, 0}));
  CHECK(!valid({1, 1, 0, -1, 0, 0}));
}

TEST_CASE("min-p's depth") {
  CHECK(sampling::min_p_depth(0) == std::numeric_limits<double>::infinity());
  CHECK(sampling::min_p_depth(1) == 0);
  CHECK(sampling::min_p_depth(0.05) == doctest::Approx(-std::log(0.05)).epsilon(1e-15));
  CHECK(sampling::min_p_depth(5e-324) == doctest::Approx(1074 * std::log(2)).epsilon(1e-14));
}

TEST_SUITE_END();
