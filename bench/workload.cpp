// SPDX-License-Identifier: Apache-2.0
#include "workload.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <random>
#include <vector>

namespace softfold::bench {

namespace {

/// Where the second matrix of a gradient begins: as if it were allocated by itself.
std::size_t second_matrix(const bench_case& c) {
  constexpr std::size_t alignment = 256;
  return (c.input_bytes() + alignment - 1) / alignment * alignment;
}

}  // namespace

workload workspace::prepare(const bench_case& c) {
  if (c.input == distribution::logits && logits_.values.empty()) {
    logits_ = read_logits(logits_path_);
  }
  // A normal input does not depend on the shape, so a part of a larger one will do.
  const bool held = held_.is_gradient() == c.is_gradient() &&
                    held_.is_attention() == c.is_attention() && held_.input == c.input &&
                    held_.type == c.type &&
                    ((held_.rows == c.rows && held_.cols == c.cols) ||
                     (c.input == distribution::normal && c.elements() <= held_.elements()));
  if (!held) {
    const std::size_t bytes = c.input_bytes();
    x_.fill(c.is_gradient() ? second_matrix(c) + bytes : bytes, [&](std::byte* out) {
      write_input(c, logits_, out);
      if (c.is_gradient()) {
        std::copy_n(out, bytes, out + second_matrix(c));
      }
    });
    held_ = c;
  }
  const dtype state = c.type == dtype::f64 ? dtype::f64 : dtype::f32;
  const auto rows = static_cast<std::size_t>(c.rows);
  const auto selected = rows * static_cast<std::size_t>(c.k);
  lse_.resize(rows * size_of(state));
  values_.resize(selected * size_of(c.type));
  indices_.resize(selected * size_of(dtype::i64));

  workload w{.spec = c,
             .x = {x_.data(), c.type, c.rows, c.cols, c.cols},
             .dy = {},
             .mask = {},
             .starts = {},
             .y = {},
             .lse = {lse_.data(), state, c.rows},
             .values = {values_.data(), c.type, c.rows, c.k, c.k},
             .indices = {indices_.data(), dtype::i64, c.rows, c.k, c.k}};
  if (c.writes_matrix()) {
    y_.resize(c.copied_bytes());
    w.y = {y_.data(), c.type, c.rows, c.cols, c.cols};
  }
  if (c.is_attention()) {
    const auto elements = static_cast<std::size_t>(c.attention.query_rows() * c.cols);
    y_.resize(elements * size_of(c.type));
    w.y = {y_.data(), c.type, c.attention.query_rows(), c.cols, c.cols};
  }
  if (const std::int64_t n = c.attention.sequences; n > 0) {
    std::vector<std::int64_t> starts(static_cast<std::size_t>(2 * (n + 1)));
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      starts[at + 1] = starts[at] + attention_shape::keys_of(i);
      starts[static_cast<std::size_t>(n) + at + 2] = (i + 1) * c.attention.queries;
    }
    const std::size_t bytes = starts.size() * sizeof starts[0];
    starts_.fill(bytes, [&](std::byte* out) { std::memcpy(out, starts.data(), bytes); });
    w.starts = {starts_.data(), dtype::i64, static_cast<std::int64_t>(starts.size())};
  }
  if (c.has_mask()) {
    const std::int64_t words = (c.cols + 31) / 32;
    const std::size_t bytes = rows * static_cast<std::size_t>(words) * sizeof(std::int32_t);
    mask_.fill(bytes, [&](std::byte* out) {
      std::mt19937 random(1);
      for (std::size_t i = 0; i < bytes; i += sizeof(std::uint32_t)) {
        auto word = static_cast<std::uint32_t>(random());
        if (c.op == operation::sparse_softmax) {
          word = 0;
          for (int bit = 0; bit < 32; ++bit) {
            word |= static_cast<std::uint32_t>(random() % 100 == 0) << bit;
          }
        }
        std::memcpy(out + i, &word, sizeof word);
      }
    });
    w.mask = {mask_.data(), dtype::i32, c.rows, words, words};
  }
  if (c.is_gradient()) {
    w.dy = w.x;
    w.dy.data = static_cast<const std::byte*>(w.x.data) + second_matrix(c);
  }
  return w;
}

}  // namespace softfold::bench
