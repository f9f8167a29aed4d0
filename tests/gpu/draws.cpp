// SPDX-License-Identifier: Apache-2.0
// 10^9 draws, with filters and without: no token that is removed, has probability 0, or is none.
#include <softfold/softfold.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

TEST_SUITE_BEGIN("large");

namespace softfold::test {
namespace {

TEST_CASE("a thousand million draws") {
  constexpr std::int64_t rows = 65536, cols = 64, draws = 4, calls = 3815;
  const auto is_kept = [](std::int64_t row, std::int64_t column) {
    return (column * 7 + row) % 3 != 0;
  };
  const auto exists = [&](std::int64_t row, std::int64_t column) {
    return is_kept(row, column) && (column + row) % 5 != 0;
  };
  std::vector<float> x(rows * cols);
  std::vector<std::int32_t> mask(rows * cols / 32);
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    const std::int64_t row = i / cols;
    const std::int64_t column = i % cols;
    const auto at = static_cast<std::size_t>(i);
    x[at] = !is_kept(row, column) ? std::numeric_limits<float>::quiet_NaN()
            : exists(row, column) ? static_cast<float>(i * 2654435761 % 4096) * 0.01F - 20
                                  : -std::numeric_limits<float>::infinity();
    if (is_kept(row, column)) {
      mask[at / 32] |= static_cast<std::int32_t>(1U << at % 32);
    }
  }
  queue q;
  buffer logits(q, x.size() * sizeof(float));
  buffer bits(q, mask.size() * sizeof(std::int32_t));
  buffer drawn(q, rows * draws * sizeof(std::int32_t));
  logits.upload(q, x.data(), logits.size());
  bits.upload(q, mask.data(), bits.size());
  std::vector<std::int32_t> tokens(rows * draws);
  std::int64_t wrong = 0;
  sample_options options{.seed = 1};
  options.edits.mask = {bits.data(), dtype::i32, rows, cols / 32, cols / 32};
  for (std::int64_t call = 0; call < calls; ++call) {
    options.offset = static_cast<std::uint64_t>(call);
    options.top_p = call % 4 == 1 ? 0.9 : 1;
    options.min_p = call % 4 == 2 ? 0.01 : 0;
    options.top_k = call % 4 == 3 ? 20 : 0;
    sample(q, {logits.data(), dtype::f32, rows, cols, cols},
           {drawn.data(), dtype::i32, rows, draws, draws}, options);
    drawn.download(q, tokens.data(), drawn.size());
    q.wait();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::int64_t token = tokens[i];
      const bool inside = token >= 0 && token < cols;
      wrong += inside && exists(static_cast<std::int64_t>(i) / draws, token) ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace softfold::test

TEST_SUITE_END();
