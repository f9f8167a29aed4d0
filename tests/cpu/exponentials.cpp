// SPDX-License-Identifier: Apache-2.0
// The kernels' exponentials against exact values: every float in [-87, 0], and samples of double.
#include "each_isa.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace softfold::host;

namespace {

/// e(x) = exp(x) 2^64: far from underflow, as the library uses it.
constexpr frame lifted = {.how = form::power, .scale = 1, .origin = -64};

/// Distance in units of the last place of the float nearest to exact.
double ulps(float value, double exact) {
  const double ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
  return std::fabs(static_cast<double>(value) - exact) / ulp;
}

}  // namespace

TEST_SUITE_BEGIN("exponentials");

TEST_CASE("double exponentials are within 1 ULP of long double ones") {
  for (const kernel_table* kernels : each_isa()) {
    const std::string isa = kernels->isa;
    CAPTURE(isa);
    std::mt19937_64 random(1);
    std::uniform_real_distribution<double> uniform(-700, 0);
    std::vector<double> x(100000);
    std::generate(x.begin(), x.end(), [&] { return uniform(random); });
    x[0] = 0;
    x[1] = -0.34657359027997264;
    std::vector<double> e(x.size());
    kernels->input[input_f64].exponentials(x.data(), static_cast<std::int64_t>(x.size()), &lifted,
                                           e.data());
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double exact = std::exp(static_cast<long double>(x[i])) * 0x1p64L;
      const long double ulp = std::ldexp(1.0L, std::ilogb(exact) - 52);
      worst = std::max(worst, static_cast<double>(std::fabs(e[i] - exact) / ulp));
    }
    MESSAGE(isa, ": ", worst, " ULP");
    CHECK(worst <= 1);
  }
}

TEST_CASE("every float in [-87, 0] is within 1 ULP") {
  // The exact values come from the double kernel, whose error is 2^-28 ULP of a float.
  constexpr std::size_t batch = 1 << 16;
#if defined(__SANITIZE_ADDRESS__)
  constexpr std::uint64_t step = 61 * batch;
  MESSAGE("instrumented build: one batch of floats in 61");
#else
  constexpr std::uint64_t step = batch;
#endif
  const auto last = std::bit_cast<std::uint32_t>(-87.0F);
  for (const kernel_table* kernels : each_isa()) {
    const std::string isa = kernels->isa;
    CAPTURE(isa);
    std::vector<float> x(batch);
    std::vector<double> wide(batch);
    std::vector<float> e(batch);
    std::vector<double> exact(batch);
    double worst = 0;
    float worst_x = 0;
    for (std::uint64_t first = 0x80000000U; first <= last; first += step) {
      for (std::size_t i = 0; i < batch; ++i) {
        x[i] = std::bit_cast<float>(
            static_cast<std::uint32_t>(std::min<std::uint64_t>(first + i, last)));
        wide[i] = static_cast<double>(x[i]);
      }
      kernels->input[input_f32].exponentials(x.data(), batch, &lifted, e.data());
      kernels->input[input_f64].exponentials(wide.data(), batch, &lifted, exact.data());
      double here = 0;
      for (std::size_t i = 0; i < batch; ++i) {
        const auto bits = std::bit_cast<std::uint64_t>(exact[i]);
        const double ulp = std::bit_cast<double>((bits & 0x7ff0000000000000U) - (23ULL << 52));
        here = std::max(here, std::fabs(static_cast<double>(e[i]) - exact[i]) / ulp);
      }
      if (here > worst) {
        worst = here;
        for (std::size_t i = 0; i < batch; ++i) {
          worst_x = ulps(e[i], exact[i]) >= worst ? x[i] : worst_x;
        }
      }
    }
    MESSAGE(isa, ": ", worst, " ULP at ", worst_x);
    CHECK(worst <= 1);
  }
}

TEST_CASE("elements far below the origin are exactly 0, NaN stays NaN") {
  const float nan = std::bit_cast<float>(0x7f800123U);
  const std::vector<float> x = {
      -std::numeric_limits<float>::infinity(), -3e38F, -1e10F, -200.0F, nan, -nan, 0.0F};
  for (const kernel_table* kernels : each_isa()) {
    const std::string isa = kernels->isa;
    CAPTURE(isa);
    std::vector<float> e(x.size());
    kernels->input[input_f32].exponentials(x.data(), static_cast<std::int64_t>(x.size()), &lifted,
                                           e.data());
    for (std::size_t i = 0; i < 4; ++i) {
      CAPTURE(x[i]);
      CHECK(std::bit_cast<std::uint32_t>(e[i]) == 0);
    }
    CHECK(std::isnan(e[4]));
    CHECK(std::isnan(e[5]));
    CHECK(e[6] == 0x1p64F);
  }
}
