// SPDX-License-Identifier: Apache-2.0
/// \file
/// One case: what is computed, on what. Every contender of a case gets the same input.
#pragma once

#include <softfold/dtype.hpp>

#include <cstdint>
#include <string>

namespace softfold::bench {

enum class operation : std::uint8_t {
  softmax,
  log_softmax,
  softmax_backward,
  log_softmax_backward,
  logsumexp,
  topk,
  softmax_topk,
  sample,          ///< k draws of each row, without filters
  sample_top_k_p,  ///< the same with top-k 50, then top-p 0.95
  sample_top_p,    ///< with top-p 0.95
  sample_min_p,    ///< with min-p 0.05
  sample_raw,      ///< without filters, with the tokens' log-probabilities
  masked_softmax,  ///< half of the bits of a mask set
  sparse_softmax,  ///< one of 100 bits of a mask set
  scan,
  attention
};

enum class distribution : std::uint8_t {
  normal,     ///< mean 0, standard deviation 2; of attention 1, and so of its scores
  logits,     ///< a language model's logits, each row turned by a different number of columns
  ascending,  ///< every element a new maximum
  equal,      ///< one value for each row
};

/// Query head h reads key head h / (heads / key_heads).
struct attention_shape {
  std::int64_t batches = 0;
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t queries = 0;  ///< of each head
  std::int64_t keys = 0;
  std::int64_t dim = 0;
  bool causal = false;
  std::int64_t sequences = 0;  ///< packed one after the other in a batch, if any

  /// Keys of sequence i, by Zipf's law: keys are those of all, longest / 1 + longest / 2 + ...
  [[nodiscard]] static constexpr std::int64_t keys_of(std::int64_t i) noexcept {
    return longest / (i + 1);
  }
  static constexpr std::int64_t longest = 131072;
  [[nodiscard]] static constexpr attention_shape ragged(std::int64_t sequences, std::int64_t heads,
                                                        std::int64_t key_heads, std::int64_t dim) {
    attention_shape s{1, heads, key_heads, 1, 0, dim, false, sequences};
    for (std::int64_t i = 0; i < sequences; ++i) {
      s.keys += keys_of(i);
    }
    return s;
  }

  /// Queries of each head of a batch.
  [[nodiscard]] constexpr std::int64_t tokens() const noexcept {
    return sequences > 0 ? sequences * queries : queries;
  }
  [[nodiscard]] constexpr std::int64_t query_rows() const noexcept {
    return batches * heads * tokens();
  }
  [[nodiscard]] constexpr std::int64_t key_rows() const noexcept {
    return batches * key_heads * keys;
  }
  /// Of both products; of as many queries as keys a causal mask leaves half.
  [[nodiscard]] double flops() const noexcept {
    const auto scores = static_cast<double>(batches * heads * queries) * static_cast<double>(keys);
    return (causal ? 2 : 4) * scores * static_cast<double>(dim);
  }
};

struct bench_case {
  std::string group = {};  ///< the table or plot that the case is for
  operation op = operation::softmax;
  dtype type = dtype::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t k = 0;  ///< 0 unless the operation is a top-k or draws
  /// Of attention. Its input's rows are those of Q, K and V, one after the other, the columns dim.
  attention_shape attention = {};
  distribution input = distribution::normal;
  int threads = 1;     ///< of the host that compute; 0 where a device does
  bool quick = false;  ///< also a part of --quick

  [[nodiscard]] std::int64_t elements() const noexcept { return rows * cols; }
  [[nodiscard]] std::size_t input_bytes() const noexcept {
    return static_cast<std::size_t>(elements()) * size_of(type);
  }
  [[nodiscard]] bool writes_matrix() const noexcept {
    return is_softmax() || has_mask() || op == operation::scan;
  }
  [[nodiscard]] bool has_mask() const noexcept {
    return op == operation::masked_softmax || op == operation::sparse_softmax;
  }
  /// Softmax, log-softmax or their gradients, and nothing else.
  [[nodiscard]] bool is_softmax() const noexcept {
    return op == operation::softmax || op == operation::log_softmax || is_gradient();
  }
  [[nodiscard]] bool draws() const noexcept {
    return op == operation::sample || op == operation::sample_top_k_p ||
           op == operation::sample_top_p || op == operation::sample_min_p ||
           op == operation::sample_raw;
  }
  [[nodiscard]] bool is_attention() const noexcept { return op == operation::attention; }
  /// Attention of one query a head, which reads keys and values and computes little.
  [[nodiscard]] bool is_decode() const noexcept { return is_attention() && attention.queries == 1; }
  /// Else by products of matrices.
  [[nodiscard]] bool is_bound_by_memory() const noexcept { return !is_attention() || is_decode(); }
  [[nodiscard]] std::size_t key_value_bytes() const noexcept {
    return static_cast<std::size_t>(2 * attention.key_rows() * attention.dim) * size_of(type);
  }
  [[nodiscard]] bool is_gradient() const noexcept {
    return op == operation::softmax_backward || op == operation::log_softmax_backward;
  }
  /// Bytes whose copy moves as many as the operation, where that writes a matrix: the gradients
  /// read two.
  [[nodiscard]] std::size_t copied_bytes() const noexcept {
    return is_gradient() ? input_bytes() / 2 * 3 : input_bytes();
  }
};

[[nodiscard]] constexpr const char* name_of(operation op) noexcept {
  switch (op) {
    case operation::softmax:
      return "softmax";
    case operation::log_softmax:
      return "log_softmax";
    case operation::softmax_backward:
      return "softmax_backward";
    case operation::log_softmax_backward:
      return "log_softmax_backward";
    case operation::logsumexp:
      return "logsumexp";
    case operation::topk:
      return "topk";
    case operation::softmax_topk:
      return "softmax_topk";
    case operation::sample:
      return "sample";
    case operation::sample_top_k_p:
      return "sample_top_k_p";
    case operation::sample_top_p:
      return "sample_top_p";
    case operation::sample_min_p:
      return "sample_min_p";
    case operation::sample_raw:
      return "sample_raw";
    case operation::masked_softmax:
      return "masked_softmax";
    case operation::sparse_softmax:
      return "sparse_softmax";
    case operation::scan:
      return "scan";
    case operation::attention:
      return "attention";
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

/// For instance "8x32x1x2048x128/kv8": batches, heads, queries, keys and dim, and how many heads
/// the keys have if it is another number; of packed sequences how many, as "64of1x32x...".
[[nodiscard]] inline std::string name_of(const attention_shape& s) {
  std::string name =
      (s.sequences > 0 ? std::to_string(s.sequences) + "of" : "") + std::to_string(s.batches);
  for (const std::int64_t size : {s.heads, s.queries, s.keys, s.dim}) {
    name += 'x' + std::to_string(size);
  }
  return name + (s.key_heads != s.heads ? "/kv" + std::to_string(s.key_heads) : "") +
         (s.causal ? "/causal" : "");
}

/// For instance "shapes/softmax_topk/f32/4000x25000/k5/normal/1t", without threads on a device:
/// what --filter matches.
[[nodiscard]] inline std::string name_of(const bench_case& c) {
  return c.group + '/' + name_of(c.op) + '/' + name_of(c.type) + '/' +
         (c.is_attention() ? name_of(c.attention)
                           : std::to_string(c.rows) + 'x' + std::to_string(c.cols)) +
         (c.k > 0 ? "/k" + std::to_string(c.k) : "") + '/' + name_of(c.input) +
         (c.threads > 0 ? '/' + std::to_string(c.threads) + 't' : "");
}

/// Where the data of a case lives: "hot" fits a core's second-level cache, "streaming" is
/// larger than any cache, "cache" lies between. On a device caches are flushed before each call;
/// what is not streaming is "small".
[[nodiscard]] inline const char* regime_of(const bench_case& c) noexcept {
  const bool streaming = c.input_bytes() >= std::size_t{100} << 20;
  if (c.threads == 0) {
    return streaming ? "streaming" : "small";
  }
  const std::size_t moved = c.writes_matrix() ? 2 * c.copied_bytes() : c.input_bytes();
  if (moved <= std::size_t{1} << 20) {
    return "hot";
  }
  return streaming ? "streaming" : "cache";
}

}  // namespace softfold::bench
