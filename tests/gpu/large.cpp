// SPDX-License-Identifier: Apache-2.0
// Matrices of more than 2^32 elements, rows of more than 2^32 columns, strides beyond 2^32: what a
// 32-bit offset would get wrong. Takes 9 GB of the device's memory.
#include <softfold/softfold.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace softfold::test {
namespace {

constexpr std::int64_t beyond_32_bits = std::int64_t{1} << 32;
constexpr std::size_t element = sizeof(bfloat16);

/// Elements on the device, all 0 but for what is put there.
class zeros {
 public:
  zeros(queue& q, std::int64_t size) : memory_(q, static_cast<std::size_t>(size) * element) {
    const std::vector<char> part(std::size_t{64} << 20, 0);
    for (std::size_t at = 0; at < memory_.size(); at += part.size()) {
      memory_.upload(q, part.data(), std::min(part.size(), memory_.size() - at), at);
    }
    q.wait();
  }
  void put(queue& q, std::int64_t at, const std::vector<bfloat16>& values) {
    memory_.upload(q, values.data(), values.size() * element,
                   static_cast<std::size_t>(at) * element);
    q.wait();
  }
  [[nodiscard]] std::vector<bfloat16> get(queue& q, std::int64_t at, std::int64_t size) const {
    std::vector<bfloat16> values(static_cast<std::size_t>(size));
    memory_.download(q, values.data(), values.size() * element,
                     static_cast<std::size_t>(at) * element);
    q.wait();
    return values;
  }
  [[nodiscard]] const_matrix_ref input(std::int64_t rows, std::int64_t cols,
                                       std::int64_t stride) const {
    return {memory_.data(), dtype::bf16, rows, cols, stride};
  }
  [[nodiscard]] matrix_ref output(std::int64_t rows, std::int64_t cols, std::int64_t stride) {
    return {memory_.data(), dtype::bf16, rows, cols, stride};
  }

 private:
  buffer memory_;
};

template <class T>
std::vector<T> download(queue& q, const buffer& from) {
  std::vector<T> values(from.size() / sizeof(T));
  from.download(q, values.data(), from.size());
  q.wait();
  return values;
}

std::vector<bfloat16> numbers(std::int64_t size, unsigned seed) {
  std::vector<bfloat16> values(static_cast<std::size_t>(size));
  for (bfloat16& value : values) {
    seed = seed * 1664525U + 1013904223U;
    value = bfloat16(static_cast<float>(seed >> 20) * 0.004F - 8);
  }
  return values;
}

bool same_bits(const std::vector<bfloat16>& a, const std::vector<bfloat16>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](bfloat16 x, bfloat16 y) { return x.bits == y.bits; });
}

/// The results of a matrix's rows.
struct results {
  std::vector<bfloat16> probabilities;
  std::vector<std::int64_t> columns;
  std::vector<float> lse;
};

/// All of them, but for softmax itself.
results short_results(queue& q, const const_matrix_ref& x, std::int64_t k) {
  buffer probabilities(q, static_cast<std::size_t>(x.rows * k) * element);
  buffer columns(q, static_cast<std::size_t>(x.rows * k) * sizeof(std::int64_t));
  buffer lse(q, static_cast<std::size_t>(x.rows) * sizeof(float));
  softmax_topk(q, x, {probabilities.data(), dtype::bf16, x.rows, k, k},
               {columns.data(), dtype::i64, x.rows, k, k});
  logsumexp(q, x, {lse.data(), dtype::f32, x.rows});
  return {download<bfloat16>(q, probabilities), download<std::int64_t>(q, columns),
          download<float>(q, lse)};
}

TEST_SUITE_BEGIN("large");

TEST_CASE("a matrix of more than 2^32 elements: its last rows as if they were alone") {
  std::int64_t rows = 65536;
  std::int64_t cols = 65552;
  SUBCASE("of ordinary rows") {}
  SUBCASE("of rows whose chunks take more than one launch") {
    rows = 14336;
    cols = 300016;
  }
  CAPTURE(cols);
  REQUIRE(rows * cols > beyond_32_bits);
  constexpr std::int64_t k = 5;
  queue q;
  zeros all(q, rows * cols);
  zeros alone(q, cols);
  const std::vector<bfloat16> last = numbers(cols, 1);
  const std::vector<bfloat16> crossing = numbers(cols, 2);
  const std::int64_t crossing_row = beyond_32_bits / cols;
  all.put(q, (rows - 1) * cols, last);
  all.put(q, crossing_row * cols, crossing);

  const results of_all = short_results(q, all.input(rows, cols, cols), k);
  softmax(q, all.input(rows, cols, cols), all.output(rows, cols, cols));
  const auto compare = [&](std::int64_t row, const std::vector<bfloat16>& x) {
    alone.put(q, 0, x);
    const results expected = short_results(q, alone.input(1, cols, cols), k);
    softmax(q, alone.input(1, cols, cols), alone.output(1, cols, cols));
    CHECK(same_bits(all.get(q, row * cols, cols), alone.get(q, 0, cols)));
    const auto r = static_cast<std::size_t>(row);
    CHECK(of_all.lse[r] == expected.lse[0]);
    for (std::size_t i = 0; i < k; ++i) {
      CAPTURE(i);
      CHECK(of_all.columns[r * k + i] == expected.columns[i]);
      CHECK(of_all.probabilities[r * k + i].bits == expected.probabilities[i].bits);
    }
  };
  compare(rows - 1, last);
  compare(crossing_row, crossing);
  compare(0, std::vector<bfloat16>(static_cast<std::size_t>(cols)));
}

TEST_CASE("a row of more than 2^32 columns: its last ones are found") {
  constexpr std::int64_t cols = beyond_32_bits + 4100;
  constexpr std::int64_t best = cols - 2;
  constexpr std::int64_t second = beyond_32_bits + 1;
  queue q;
  zeros row(q, cols);
  row.put(q, best, {bfloat16(20.F)});
  row.put(q, second, {bfloat16(19.F)});
  row.put(q, 7, {bfloat16(18.F)});
  const results found = short_results(q, row.input(1, cols, cols), 5);
  CHECK(found.columns == std::vector<std::int64_t>{best, second, 7, 0, 1});
  const double sum = static_cast<double>(cols - 3) + std::exp(20.) + std::exp(19.) + std::exp(18.);
  const double lse = std::log(sum);
  CHECK(std::abs(found.lse[0] - lse) <= (lse + 16 + 32) * 0x1p-24);
  CHECK(static_cast<float>(found.probabilities[0]) ==
        doctest::Approx(std::exp(20.) / sum).epsilon(0.004));

  softmax(q, row.input(1, cols, cols), row.output(1, cols, cols));
  const std::vector<bfloat16> end = row.get(q, cols - 3, 3);
  CHECK(static_cast<float>(end[1]) == doctest::Approx(std::exp(20.) / sum).epsilon(0.004));
  CHECK(static_cast<float>(end[0]) == doctest::Approx(1 / sum).epsilon(0.004));
  CHECK(static_cast<float>(end[2]) == doctest::Approx(1 / sum).epsilon(0.004));
}

// So large a k that all elements compete, of which more than 2^32 are equal.
TEST_CASE("a large k of a row of more than 2^32 columns that are nearly all equal") {
  constexpr std::int64_t cols = beyond_32_bits + 4100;
  constexpr std::int64_t k = 20000;
  queue q;
  zeros row(q, cols);
  row.put(q, cols - 2, {bfloat16(20.F)});
  row.put(q, 7, {bfloat16(18.F)});
  buffer values(q, k * element);
  buffer columns(q, k * sizeof(std::int64_t));
  topk(q, row.input(1, cols, cols), {values.data(), dtype::bf16, 1, k, k},
       {columns.data(), dtype::i64, 1, k, k});
  std::vector<std::int64_t> expected = {cols - 2, 7};
  for (std::int64_t c = 0; c < k - 1; ++c) {
    if (c != 7) {
      expected.push_back(c);
    }
  }
  CHECK(download<std::int64_t>(q, columns) == expected);
}

TEST_CASE("a row alone and among others: the same bits, however few rows are divided") {
  constexpr std::int64_t rows = 40;
  for (const std::int64_t cols : {20001, 50257, 128256, 300007, 600011, 1 << 20, 3000001}) {
    CAPTURE(cols);
    queue q;
    zeros all(q, rows * cols);
    zeros alone(q, cols);
    for (std::int64_t r = 0; r < 3; ++r) {
      all.put(q, r * cols, numbers(cols, static_cast<unsigned>(r)));
    }
    const std::vector<bfloat16> second = all.get(q, cols, cols);
    const results of_all = short_results(q, all.input(rows, cols, cols), 3);
    softmax(q, all.input(rows, cols, cols), all.output(rows, cols, cols));
    const std::vector<bfloat16> expected = all.get(q, cols, cols);
    for (int repetition = 0; repetition < 3; ++repetition) {
      alone.put(q, 0, second);
      const results found = short_results(q, alone.input(1, cols, cols), 3);
      CHECK(found.lse[0] == of_all.lse[1]);
      CHECK(found.columns[2] == of_all.columns[5]);
      softmax(q, alone.input(1, cols, cols), alone.output(1, cols, cols));
      CHECK(same_bits(alone.get(q, 0, cols), expected));
    }
  }
}

TEST_CASE("rows that are more than 2^32 elements apart") {
  constexpr std::int64_t stride = beyond_32_bits + 32;
  constexpr std::int64_t cols = 1001;
  queue q;
  zeros all(q, stride + cols);
  zeros alone(q, cols);
  const std::vector<bfloat16> second = numbers(cols, 3);
  all.put(q, stride, second);
  alone.put(q, 0, second);
  const results of_all = short_results(q, all.input(2, cols, stride), 3);
  const results expected = short_results(q, alone.input(1, cols, cols), 3);
  CHECK(of_all.lse[1] == expected.lse[0]);
  CHECK(std::equal(expected.columns.begin(), expected.columns.end(), of_all.columns.begin() + 3));
  softmax(q, all.input(2, cols, stride), all.output(2, cols, stride));
  softmax(q, alone.input(1, cols, cols), alone.output(1, cols, cols));
  CHECK(same_bits(all.get(q, stride, cols), alone.get(q, 0, cols)));
  CHECK(all.get(q, cols, 1)[0].bits == 0);  // between the rows nothing is written
}

TEST_SUITE_END();

}  // namespace
}  // namespace softfold::test
