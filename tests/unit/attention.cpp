// SPDX-License-Identifier: Apache-2.0
// Which rows of packed sequences a block has, and which keys a row.
#include <core/attention.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
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

TEST_CASE("where a problem is unmasked every query has all live keys of its sequence") {
  constexpr std::int64_t keys = 9;
  int unmasked = 0;
  int all = 0;
  for (const causal corner : {causal::none, causal::top_left, causal::bottom_right}) {
    for (const std::int64_t queries : {1, 2}) {
      for (const std::int64_t query_offset : {-3, 0, 4}) {
        for (const std::int64_t key_offset : {0, 2}) {
          for (const auto& [left, right] : {std::pair{-1, -1}, {0, -1}, {-1, 0}}) {
            for (std::int64_t length = -1; length < keys + 4; ++length) {
              core::attention_problem p;
              p.q = {nullptr, dtype::f32, 1, 1, queries, 64, 0, 0, 0};
              p.k = {nullptr, dtype::f32, 1, 1, keys, 64, 0, 0, 0};
              p.options.corner = corner;
              p.options.query_offset = query_offset;
              p.options.key_offset = key_offset;
              p.options.window_left = left;
              p.options.window_right = right;
              if (length >= 0) {
                p.options.key_lengths = {&length, dtype::i64, 1};
              }
              const auto s = core::attention_sequence::of(p, 0);
              bool has_all = true;
              for (std::int64_t token = 0; token < queries; ++token) {
                const auto row = core::attention_row<float>::of(p, s, 0, token);
                has_all = has_all && row.first == 0 && row.end == s.live_keys(p);
              }
              ++all;
              if (p.is_unmasked()) {
                CHECK(has_all);
                ++unmasked;
              }
            }
          }
        }
      }
    }
  }
  CHECK(unmasked > 200);
  CHECK(all - unmasked > 200);
}

}  // namespace
}  // namespace softfold

TEST_SUITE_END();
