// SPDX-License-Identifier: Apache-2.0
// The kernels of each instruction set against plain loops, and the promises that the plans
// build on: two ways to the same result give the same bits.
#include "each_isa.hpp"

#include <backends/host/row.hpp>
#include <softfold/dtype.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace softfold;
using namespace softfold::host;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

std::vector<float> normal(std::size_t n, float scale, float offset, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution(offset, scale);
  std::vector<float> x(n);
  std::generate(x.begin(), x.end(), [&] { return distribution(random); });
  return x;
}

const std::int64_t lengths[] = {1,   2,    3,    4,    5,    7,    8,    15,   16,   17,
                                31,  33,   63,   64,   65,   127,  128,  129,  255,  511,
                                513, 1000, 1023, 1024, 1025, 2047, 4096, 5000, 8191, 8192};

double exact_sum(const std::vector<float>& x, std::int64_t n, double origin) {
  long double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    sum += std::exp(static_cast<long double>(x[static_cast<std::size_t>(i)]));
  }
  return static_cast<double>(std::ldexp(sum, -static_cast<int>(origin)));
}

}  // namespace

TEST_SUITE_BEGIN("kernels");

TEST_CASE("fold: maximum, sum and kept exponentials at every length") {
  const std::vector<float> x = normal(segment_columns, 3, 0, 2);
  for (const kernel_table* table : each_isa()) {
    const input_kernels& kernels = table->input[input_f32];
    for (const std::int64_t n : lengths) {
      CAPTURE(std::string(table->isa));
      CAPTURE(n);
      segment_state plain;
      segment_state keeping;
      segment_state grouping;
      std::vector<float> kept(static_cast<std::size_t>(n) + 16, -1.0F);
      std::vector<float> groups(segment_columns, -1.0F);
      REQUIRE(kernels.fold(x.data(), n, 1, nullptr, nullptr, &plain));
      REQUIRE(kernels.fold(x.data(), n, 1, kept.data(), nullptr, &keeping));
      REQUIRE(kernels.fold(x.data(), n, 1, nullptr, groups.data(), &grouping));
      CHECK(plain.max == static_cast<double>(*std::max_element(x.begin(), x.begin() + n)));
      CHECK(plain.sum == doctest::Approx(exact_sum(x, n, plain.origin)).epsilon(1e-6));
      // All three give the same bits, and so do kept and recomputed exponentials.
      CHECK(std::memcmp(&plain.sum, &keeping.sum, sizeof(double)) == 0);
      CHECK(std::memcmp(&plain.sum, &grouping.sum, sizeof(double)) == 0);
      const frame f = {.how = form::power, .scale = 1, .origin = plain.origin};
      std::vector<float> again(static_cast<std::size_t>(n));
      kernels.exponentials(x.data(), n, &f, again.data());
      CHECK(std::memcmp(kept.data(), again.data(), again.size() * sizeof(float)) == 0);
      CHECK(kept[static_cast<std::size_t>(n)] == -1.0F);
    }
  }
}

TEST_CASE("fold refuses NaN, +infinity and far rows, wherever they are") {
  for (const kernel_table* table : each_isa()) {
    const input_kernels& kernels = table->input[input_f32];
    for (const std::int64_t n : lengths) {
      for (const float bad : {std::numeric_limits<float>::quiet_NaN(), inf, 1e5F}) {
        for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
          CAPTURE(std::string(table->isa));
          CAPTURE(n);
          CAPTURE(at);
          CAPTURE(bad);
          std::vector<float> x = normal(static_cast<std::size_t>(n), 1, 0, 3);
          x[static_cast<std::size_t>(at)] = bad;
          segment_state state;
          CHECK_FALSE(kernels.fold(x.data(), n, 1, nullptr, nullptr, &state));
          row_scan scan;
          kernels.scan(x.data(), n, &scan);
          CHECK(scan.has_nan == std::isnan(bad));
          CHECK(kernels.group_maxima(x.data(), n, std::vector<float>(segment_columns).data()) !=
                std::isnan(bad));
        }
      }
    }
  }
}

TEST_CASE("fold follows a row that rises through many origins") {
  std::vector<float> x(segment_columns);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = -300.0F + 600.0F * static_cast<float>(i) / static_cast<float>(x.size());
  }
  for (const kernel_table* table : each_isa()) {
    CAPTURE(std::string(table->isa));
    segment_state state;
    REQUIRE(table->input[input_f32].fold(x.data(), segment_columns, 1, nullptr, nullptr, &state));
    CHECK_FALSE(state.one_origin);
    CHECK(state.sum == doctest::Approx(exact_sum(x, segment_columns, state.origin)).epsilon(1e-6));
  }
}

TEST_CASE("streamed and ordinary stores write the same, at every offset, and nothing else") {
  const std::vector<float> x = normal(600, 2, 0, 4);
  const frame f = {.how = form::power, .scale = 1, .origin = 0};
  for (const kernel_table* table : each_isa()) {
    for (const int out : {int{output_same}, int{output_arithmetic}}) {
      for (const std::int64_t n : {1, 5, 15, 16, 17, 63, 64, 65, 300, 513}) {
        for (std::size_t offset = 0; offset < 17; ++offset) {
          CAPTURE(std::string(table->isa));
          CAPTURE(n);
          CAPTURE(offset);
          alignas(64) float plain[600] = {};
          alignas(64) float streamed[600] = {};
          const output_kernels& kernels = table->output[input_f32][out];
          kernels.probabilities(x.data(), n, &f, 0.5, {plain + offset, false});
          kernels.probabilities(x.data(), n, &f, 0.5, {streamed + offset, true});
          REQUIRE(std::memcmp(plain, streamed, sizeof plain) == 0);
          for (std::size_t i = 0; i < 600; ++i) {
            const bool written = i >= offset && i < offset + static_cast<std::size_t>(n);
            REQUIRE((streamed[i] != 0) == written);
          }
        }
      }
    }
  }
}

TEST_CASE("16-bit results are rounded to nearest even, as the public types do") {
  std::vector<float> x = normal(4096, 4, 0, 5);
  for (const kernel_table* table : each_isa()) {
    CAPTURE(std::string(table->isa));
    std::vector<half> h(x.size());
    std::vector<bfloat16> b(x.size());
    const auto n = static_cast<std::int64_t>(x.size());
    table->output[input_f16][output_same].scaled(x.data(), n, 0.75, {h.data(), false});
    table->output[input_bf16][output_same].scaled(x.data(), n, 0.75, {b.data(), false});
    for (std::size_t i = 0; i < x.size(); ++i) {
      REQUIRE(h[i].bits == half(x[i] * 0.75F).bits);
      REQUIRE(b[i].bits == bfloat16(x[i] * 0.75F).bits);
    }
  }
}

TEST_CASE("every 16-bit pattern is read exactly") {
  std::vector<half> h(65536);
  std::vector<bfloat16> b(65536);
  for (std::size_t i = 0; i < h.size(); ++i) {
    h[i].bits = b[i].bits = static_cast<std::uint16_t>(i);
  }
  for (const kernel_table* table : each_isa()) {
    CAPTURE(std::string(table->isa));
    for (std::size_t i = 0; i < h.size(); ++i) {
      row_scan scan;
      table->input[input_f16].scan(&h[i], 1, &scan);
      const auto value = static_cast<float>(h[i]);
      REQUIRE(scan.has_nan == std::isnan(value));
      REQUIRE((std::isnan(value) || scan.max == static_cast<double>(value)));
      table->input[input_bf16].scan(&b[i], 1, &scan);
      const auto brain = static_cast<float>(b[i]);
      REQUIRE(scan.has_nan == std::isnan(brain));
      REQUIRE((std::isnan(brain) || scan.max == static_cast<double>(brain)));
    }
  }
}
