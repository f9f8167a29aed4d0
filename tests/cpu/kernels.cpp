// SPDX-License-Identifier: Apache-2.0
// The kernels of each instruction set against plain loops, and the promises that the plans
// build on: two ways to the same result give the same bits.
#include "each_isa.hpp"

#include <backends/host/row/state.hpp>
#include <softfold/dtype.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
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
      REQUIRE(kernels.fold(x.data(), n, 1, {}, nullptr, &plain));
      REQUIRE(kernels.fold(x.data(), n, 1, {kept.data(), n % 2 == 0}, nullptr, &keeping));
      REQUIRE(kernels.fold(x.data(), n, 1, {}, groups.data(), &grouping));
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

TEST_CASE("fold: the origin is the first block's, whatever its first elements say") {
  constexpr std::int64_t n = 900;
  for (const float height : {-250.0F, -20.0F, 0.0F, 18.0F, 40.0F, 250.0F}) {
    for (const float first : {-inf, -280.0F, -100.0F, -1.0F, 0.0F}) {  // below the others
      std::vector<float> x = normal(n, 1, height, 8);
      std::fill(x.begin(), x.begin() + 40, first == -inf ? -inf : height + first);
      x[40] = height + 3;
      for (const kernel_table* table : each_isa()) {
        CAPTURE(std::string(table->isa));
        CAPTURE(height);
        CAPTURE(first);
        const input_kernels& kernels = table->input[input_f32];
        segment_state state;
        std::vector<float> kept(n);
        REQUIRE(kernels.fold(x.data(), n, 1, {kept.data(), true}, nullptr, &state));
        const double exponent = state.max * 1.4426950408889634;
        CHECK(state.origin == 64 * std::floor((exponent - origin_margin) / 64));
        CHECK(state.one_origin);
        CHECK(state.sum == doctest::Approx(exact_sum(x, n, state.origin)).epsilon(1e-6));
        const frame f = {.how = form::power, .scale = 1, .origin = state.origin};
        std::vector<float> again(n);
        kernels.exponentials(x.data(), n, &f, again.data());
        CHECK(std::memcmp(kept.data(), again.data(), n * sizeof(float)) == 0);
        segment_state grouping;
        std::vector<float> groups(segment_columns, -1.0F);
        std::vector<float> maxima(segment_columns, -1.0F);
        REQUIRE(kernels.fold(x.data(), n, 1, {}, groups.data(), &grouping));
        REQUIRE(kernels.group_maxima(x.data(), n, maxima.data()));
        CHECK(std::memcmp(&state.sum, &grouping.sum, sizeof(double)) == 0);
        CHECK(groups == maxima);
      }
    }
  }
}

TEST_CASE("the nearly k-th of values without any between them") {
  const float least = std::numeric_limits<float>::denorm_min();
  const auto check = [](const std::vector<float>& values, std::int64_t k) {
    std::vector<float> sorted = values;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    for (const kernel_table* table : each_isa()) {
      CAPTURE(std::string(table->isa));
      CAPTURE(k);
      const double found = table->input[input_f32].nearly_kth(
          values.data(), static_cast<std::int64_t>(values.size()), k, 0,
          -std::numeric_limits<double>::infinity());
      CHECK(found == static_cast<double>(sorted[static_cast<std::size_t>(k - 1)]));
    }
  };
  for (const float low : {-0.0F, 0.0F, -least, -1.0F}) {
    for (const float high : {least, 0.0F, -0.0F, 1.0F}) {
      for (std::int64_t k = 1; k <= 16; k += 3) {
        std::vector<float> values(64, low);
        values[17] = high;
        values[40] = std::nextafter(high, inf);
        check(values, k);
      }
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
          CHECK_FALSE(kernels.fold(x.data(), n, 1, {}, nullptr, &state));
          row_extremes extremes;
          kernels.extremes(x.data(), n, &extremes);
          CHECK(extremes.has_nan == std::isnan(bad));
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
    REQUIRE(table->input[input_f32].fold(x.data(), segment_columns, 1, {}, nullptr, &state));
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
      row_extremes extremes;
      table->input[input_f16].extremes(&h[i], 1, &extremes);
      const auto value = static_cast<float>(h[i]);
      REQUIRE(extremes.has_nan == std::isnan(value));
      REQUIRE((std::isnan(value) || extremes.max == static_cast<double>(value)));
      table->input[input_bf16].extremes(&b[i], 1, &extremes);
      const auto brain = static_cast<float>(b[i]);
      REQUIRE(extremes.has_nan == std::isnan(brain));
      REQUIRE((std::isnan(brain) || extremes.max == static_cast<double>(brain)));
    }
  }
}

TEST_CASE("a fold that streams another row's results: the bits of doing one after the other") {
  const std::vector<float> x = normal(9000, 3, 0, 6);
  const std::vector<float> e = normal(9000, 3, 5, 7);
  for (const kernel_table* table : each_isa()) {
    const input_kernels& input = table->input[input_f32];
    const output_kernels& output = table->output[input_f32][output_same];
    for (const std::int64_t n : {1, 15, 16, 17, 100, 1000, 1024, 1100, 8191, 8192}) {
      // Stores of any alignment, little ahead of the loads in their pages and far from them.
      for (const unsigned offset : {0U, 1U, 5U, 16U, 17U, 64U, 200U, 255U, 256U, 300U, 1000U}) {
        for (const float last : {0.0F, 40.0F, std::numeric_limits<float>::quiet_NaN(), inf}) {
          CAPTURE(std::string(table->isa));
          CAPTURE(n);
          CAPTURE(offset);
          CAPTURE(last);
          const auto count = static_cast<std::size_t>(n);
          std::vector<float> in(x.begin(), x.begin() + n);
          in.back() += last;
          segment_state plain{};
          segment_state along{};
          std::vector<float> kept(count, -1.0F);
          std::vector<float> kept_along(count, -1.0F);
          std::vector<float> y(10000, -1.0F);
          std::vector<float> y_along(10000, -1.0F);
          const bool folded = input.fold(in.data(), n, 1, {kept.data()}, nullptr, &plain);
          output.scaled(e.data(), n, 0.75, {y.data() + offset, true});
          CHECK(output.fold_and_stream(in.data(), n, 1, {kept_along.data(), true}, &along, e.data(),
                                       0.75, y_along.data() + offset) == folded);
          CHECK(folded == (last == 0.0F || last == 40.0F));
          CHECK(y == y_along);
          if (folded) {
            CHECK(kept == kept_along);
            CHECK(std::memcmp(&plain.sum, &along.sum, sizeof(double)) == 0);
            CHECK(plain.origin == along.origin);
          }
        }
      }
    }
  }
}

namespace {

/// Rows of each kind that top-k meets, f32.
enum class content { normal, few_values, neighbours, zeros, ascending };

std::vector<float> row_of(content kind, std::int64_t cols, unsigned seed) {
  std::vector<float> x = normal(static_cast<std::size_t>(cols), 2, 0, seed);
  for (std::size_t i = 0; i < x.size(); ++i) {
    switch (kind) {
      case content::normal:
        break;
      case content::few_values:
        x[i] = std::round(x[i]);
        break;
      case content::neighbours:  // told apart by their lowest bits only
        x[i] = 1.0F + std::ldexp(std::round(x[i] * 8), -23);
        break;
      case content::zeros:
        x[i] = i % 3 == 0 ? 0.0F : -0.0F;
        break;
      case content::ascending:
        x[i] = static_cast<float>(i) * 0.001F;
        break;
    }
  }
  return x;
}

/// Columns from best to worst.
std::vector<std::int64_t> ranked_columns(const float* x, std::int64_t cols) {
  std::vector<std::int64_t> columns(static_cast<std::size_t>(cols));
  std::iota(columns.begin(), columns.end(), 0);
  std::stable_sort(columns.begin(), columns.end(),
                   [&](std::int64_t a, std::int64_t b) { return x[a] > x[b]; });
  return columns;
}

}  // namespace

TEST_CASE("top-k of rows: every kind of row, number of columns and k, in one call") {
  constexpr content kinds[] = {content::normal, content::few_values, content::neighbours,
                               content::zeros, content::ascending};
  constexpr std::int64_t rows = 37;
  for (const std::int64_t cols : {1, 5, 16, 17, 63, 64, 100, 191, 194, 1000, 1025, 8192}) {
    const std::int64_t stride = cols + 3;
    std::vector<float> x(static_cast<std::size_t>(rows * stride));
    std::vector<std::vector<std::int64_t>> expected;
    std::vector<double> sums;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto row = row_of(kinds[static_cast<std::size_t>(r) % std::size(kinds)], cols,
                              static_cast<unsigned>(r));
      std::copy(row.begin(), row.end(), x.begin() + r * stride);
      expected.push_back(ranked_columns(row.data(), cols));
      sums.push_back(exact_sum(row, cols, 0));
    }
    for (const std::int64_t k : {1, 2, 5, 6, 8, 9, 16, 17, 64}) {
      if (k > cols) {
        continue;
      }
      for (const kernel_table* table : each_isa()) {
        for (const bool fold : {true, false}) {
          CAPTURE(std::string(table->isa));
          CAPTURE(cols);
          CAPTURE(k);
          CAPTURE(fold);
          std::vector<float> values(static_cast<std::size_t>(rows * k));
          std::vector<float> probabilities(values.size());
          std::vector<std::int32_t> columns(values.size());
          const topk_rows call = {.x = x.data(),
                                  .x_stride = stride,
                                  .rows = rows,
                                  .cols = cols,
                                  .k = k,
                                  .fold = fold,
                                  .probabilities = fold ? probabilities.data() : nullptr,
                                  .probabilities_stride = k,
                                  .values = values.data(),
                                  .values_stride = k,
                                  .indices = columns.data(),
                                  .indices_stride = k,
                                  .column_offset = 7};
          const std::uint64_t undone = table->input[input_f32].topk(&call);
          for (std::int64_t r = 0; r < rows; ++r) {
            CAPTURE(r);
            if ((undone >> r & 1U) != 0) {  // only where too many elements may be among the best
              CHECK(kinds[static_cast<std::size_t>(r) % std::size(kinds)] != content::normal);
              CHECK(cols > 256);
              continue;
            }
            bool right = true;
            for (std::int64_t i = 0; i < k; ++i) {
              const auto at = static_cast<std::size_t>(r * k + i);
              const std::int64_t column =
                  expected[static_cast<std::size_t>(r)][static_cast<std::size_t>(i)];
              const float value = x[static_cast<std::size_t>(r * stride + column)];
              right = right && columns[at] == column + 7 && values[at] == value &&
                      std::signbit(values[at]) == std::signbit(value);
              if (fold) {
                const double exact =
                    std::exp(static_cast<double>(value)) / sums[static_cast<std::size_t>(r)];
                right = right && std::fabs(probabilities[at] / exact - 1) < 2e-6;
              }
            }
            CHECK(right);
          }
        }
      }
    }
  }
}

TEST_CASE("top-k of rows leaves those to others that it cannot take, and only those") {
  constexpr std::int64_t rows = 64;
  for (const std::int64_t cols : {16, 100, 1000, 3000}) {
    for (const kernel_table* table : each_isa()) {
      for (const std::int64_t k : {1, 5, 8, 16}) {
        CAPTURE(std::string(table->isa));
        CAPTURE(cols);
        CAPTURE(k);
        std::vector<float> x = normal(static_cast<std::size_t>(rows * cols), 2, 0, 8);
        const auto row = [&](std::int64_t r) { return x.begin() + r * cols; };
        row(3)[cols - 1] = std::numeric_limits<float>::quiet_NaN();
        row(17)[0] = -std::numeric_limits<float>::quiet_NaN();
        row(31)[cols / 2] = inf;
        std::fill(row(33), row(33) + cols, -inf);
        std::fill(row(63), row(63) + cols, -std::numeric_limits<float>::quiet_NaN());
        row(40)[5] = 1e4F;
        std::fill(row(50) + 1, row(50) + cols / 2, -inf);  // an ordinary row
        std::vector<float> probabilities(static_cast<std::size_t>(rows * k));
        std::vector<std::int64_t> columns(probabilities.size());
        const topk_rows call = {.x = x.data(),
                                .x_stride = cols,
                                .rows = rows,
                                .cols = cols,
                                .k = k,
                                .fold = true,
                                .probabilities = probabilities.data(),
                                .probabilities_stride = k,
                                .indices = columns.data(),
                                .indices_stride = k,
                                .wide_indices = true};
        const std::uint64_t expected = std::uint64_t{1} << 3 | std::uint64_t{1} << 17 |
                                       std::uint64_t{1} << 31 | std::uint64_t{1} << 33 |
                                       std::uint64_t{1} << 40 | std::uint64_t{1} << 63;
        CHECK(table->input[input_f32].topk(&call) == expected);
      }
    }
  }
}

TEST_CASE("top-k of rows raises no invalid operation on ordinary rows") {
  constexpr std::int64_t rows = 20;
  for (const std::int64_t cols : {5, 40, 100, 1000, 3000}) {
    std::vector<float> x = normal(static_cast<std::size_t>(rows * cols), 2, 0, 9);
    std::fill(x.begin() + cols, x.begin() + cols + cols / 2, -inf);
    for (const std::int64_t k : {1, 3, 5, 9, 20}) {
      if (k > cols) {
        continue;
      }
      for (const kernel_table* table : each_isa()) {
        for (const double scale : {1.0, 0.699999988079071044921875}) {
          CAPTURE(std::string(table->isa));
          CAPTURE(cols);
          CAPTURE(k);
          CAPTURE(scale);
          std::vector<float> probabilities(static_cast<std::size_t>(rows * k));
          std::vector<std::int64_t> columns(probabilities.size());
          const topk_rows call = {.x = x.data(),
                                  .x_stride = cols,
                                  .rows = rows,
                                  .cols = cols,
                                  .k = k,
                                  .scale = scale,
                                  .fold = true,
                                  .probabilities = probabilities.data(),
                                  .probabilities_stride = k,
                                  .indices = columns.data(),
                                  .indices_stride = k,
                                  .wide_indices = true};
          std::feclearexcept(FE_ALL_EXCEPT);
          table->input[input_f32].topk(&call);
          CHECK(std::fetestexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW) == 0);
        }
      }
    }
  }
}

TEST_CASE("logsumexp of short rows: the same bits whatever rows stand beside") {
  constexpr std::int64_t rows = 45;
  for (const std::int64_t cols : {1, 7, 16, 17, 40, 64}) {
    std::vector<float> x = normal(static_cast<std::size_t>(rows * cols), 3, 0, 9);
    x[static_cast<std::size_t>(4 * cols)] = std::numeric_limits<float>::quiet_NaN();
    x[static_cast<std::size_t>(9 * cols)] = inf;
    x[static_cast<std::size_t>(13 * cols)] = 3000;
    std::fill(x.begin() + 20 * cols, x.begin() + 21 * cols, -inf);
    std::fill(x.begin() + 21 * cols, x.begin() + 22 * cols, -500.0F);
    for (const kernel_table* table : each_isa()) {
      for (const double scale : {1.0, 0.7}) {
        CAPTURE(std::string(table->isa));
        CAPTURE(cols);
        CAPTURE(scale);
        const auto kernel = table->output[input_f32][output_same].short_logsumexp;
        std::vector<float> together(rows);
        short_rows call = {.x = x.data(),
                           .y = together.data(),
                           .x_stride = cols,
                           .y_stride = 1,
                           .rows = rows,
                           .cols = cols,
                           .scale = scale};
        kernel(&call);
        for (std::int64_t r = 0; r < rows; ++r) {
          CAPTURE(r);
          float alone = 0;
          call.x = x.data() + r * cols;
          call.y = &alone;
          call.rows = 1;
          kernel(&call);
          const float found = together[static_cast<std::size_t>(r)];
          CHECK(std::memcmp(&found, &alone, sizeof alone) == 0);
          if (r != 4 && r != 9 && r != 13 && r != 20) {
            long double sum = 0;
            const long double offset = r == 21 ? -500 * scale : 0;
            for (std::int64_t c = 0; c < cols; ++c) {
              sum += std::exp(static_cast<long double>(x[static_cast<std::size_t>(r * cols + c)]) *
                                  scale -
                              offset);
            }
            const auto exact = static_cast<double>(std::log(sum) + offset);
            CHECK(std::fabs(found - exact) <= 0x1p-24 * (std::fabs(exact) + 16));
          }
        }
      }
    }
  }
}
