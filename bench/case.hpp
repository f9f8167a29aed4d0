// SPDX-License-Identifier: Apache-2.0
/// \file
/// One case: what is computed, on what. Every contender of a case gets the same input.
#pragma once

#include <softfold/dtype.hpp>

#include <cstdint>
#include <string>

namespace softfold::bench {

enum class operation : std::uint8_t { softmax, log_softmax, logsumexp, topk, softmax_topk };

enum class distribution : std::uint8_t {
  normal,     ///< mean 0, standard deviation 2
  logits,     ///< a language model's logits, each row turned by a different number of columns
  ascending,  ///< every element a new maximum
  equal,      ///< one value for each row
};

struct bench_case {
  std::string group = {};  ///< the table or plot that the case is for
  operation op = operation::softmax;
  dtype type = dtype::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t k = 0;  ///< 0 unless the operation is a top-k
  distribution input = distribution::normal;
  int threads = 1;     ///< of the host that compute; 0 where a device does
  bool quick = false;  ///< also a part of --quick

  [[nodiscard]] std::int64_t elements() const noexcept { return rows * cols; }
  [[nodiscard]] std::size_t input_bytes() const noexcept {
    return static_cast<std::size_t>(elements()) * size_of(type);
  }
  [[nodiscard]] bool writes_matrix() const noexcept {
    return op == operation::softmax || op == operation::log_softmax;
  }
};

[[nodiscard]] constexpr const char* name_of(operation op) noexcept {
  switch (op) {
    case operation::softmax:
      return "softmax";
    case operation::log_softmax:
      return "log_softmax";
    case operation::logsumexp:
      return "logsumexp";
    case operation::topk:
      return "topk";
    case operation::softmax_topk:
      return "softmax_topk";
  }
  return "unknown";
}

[[nodiscard]] constexpr const char* name_of(distribution input) noexcept {
  switch (input) {
    case distribution::normal:
      return "normal";
    case distribution::logits:
      return "logits";
    case distribution::ascending:
      return "ascending";
    case distribution::equal:
      return "equal";
  }
  return "unknown";
}

/// For instance "shapes/softmax_topk/f32/4000x25000/k5/normal/1t", without threads on a device:
/// what --filter matches.
[[nodiscard]] inline std::string name_of(const bench_case& c) {
  return c.group + '/' + name_of(c.op) + '/' + name_of(c.type) + '/' + std::to_string(c.rows) +
         'x' + std::to_string(c.cols) + (c.k > 0 ? "/k" + std::to_string(c.k) : "") + '/' +
         name_of(c.input) + (c.threads > 0 ? '/' + std::to_string(c.threads) + 't' : "");
}

/// Where the data of a case lives: "hot" fits a core's second-level cache, "streaming" is
/// larger than any cache, "cache" lies between. On a device caches are flushed before each call;
/// what is not streaming is "small".
[[nodiscard]] inline const char* regime_of(const bench_case& c) noexcept {
  const bool streaming = c.input_bytes() >= std::size_t{100} << 20;
  if (c.threads == 0) {
    return streaming ? "streaming" : "small";
  }
  const std::size_t moved = c.input_bytes() * (c.writes_matrix() ? 2 : 1);
  if (moved <= std::size_t{1} << 20) {
    return "hot";
  }
  return streaming ? "streaming" : "cache";
}

}  // namespace softfold::bench
