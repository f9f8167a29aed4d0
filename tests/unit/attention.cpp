// SPDX-License-Identifier: Apache-2.0
// Which rows of packed sequences a block has.
#include <core/attention.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

TEST_SUITE_BEGIN("attention");

namespace softfold {
namespace {

TEST_CASE("blocks of packed sequences have each row once, and none beside") {
  for (const std::int64_t first : {0, 3, 17}) {
    const std::vector<std::int64_t> starts = {first, first + 1, first + 31, first + 31, first + 38};
    core::attention_problem p;
    p.q = {nullptr, dtype::f32, 1, 8, first + 41, 64, 0, 0, 0};
    p.k = {nullptr, dtype::f32, 1, 2, 50, 64, 0, 0, 0};
    p.v = p.k;
    p.group = 4;
    p.options.query_starts = {starts.data(), dtype::i64, std::int64_t(starts.size())};
    p.options.key_starts = p.options.query_starts;
    for (const std::int64_t rows : {8, 16, 128}) {
      CAPTURE(first);
      CAPTURE(rows);
      std::vector<int> seen(static_cast<std::size_t>(p.q.tokens * p.group));
      for (std::int64_t b = 0; b < core::attention_sequence::most_blocks(p, rows); ++b) {
        std::int64_t row = 0;
        const auto s = core::attention_sequence::with_block(p, 0, b, rows, row);
        CHECK(row >= 0);
        for (std::int64_t i = row; i < row + rows && i < p.group * s.queries; ++i) {
          ++seen.at(static_cast<std::size_t>(s.first_query * p.group + i));
        }
      }
      for (std::int64_t i = 0; i < p.q.tokens * p.group; ++i) {
        const std::int64_t token = i / p.group;
        const bool is_in = token >= starts.front() && token < starts.back();
        CHECK(seen[static_cast<std::size_t>(i)] == (is_in ? 1 : 0));
      }
    }
  }
}

}  // namespace
}  // namespace softfold

TEST_SUITE_END();
