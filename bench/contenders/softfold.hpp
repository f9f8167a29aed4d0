// SPDX-License-Identifier: Apache-2.0
/// \file
/// The operations of any backend: a program that links two has them once for each.
#pragma once

#include "contender.hpp"

#include <softfold/attention.hpp>
#include <softfold/softfold.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace softfold::bench {

/// What the operations that draw do beside it.
[[nodiscard]] inline sample_options drawing(const workload& w) {
  sample_options options{.seed = 1};
  switch (w.spec.op) {
    case operation::sample_top_k_p:
      options.top_k = 50;
      options.top_p = 0.95;
      break;
    case operation::sample_top_p:
      options.top_p = 0.95;
      break;
    case operation::sample_min_p:
      options.min_p = 0.05;
      break;
    case operation::sample_raw:
      options.raw_log_probability = w.values;
      break;
    default:
      break;
  }
  return options;
}

[[nodiscard]] inline work attention_call(const std::shared_ptr<queue>& q, const workload& w) {
  const attention_shape& s = w.spec.attention;
  const auto tensor = [&](std::int64_t first_row, std::int64_t heads, std::int64_t tokens) {
    const std::int64_t head = tokens * s.dim;
    const auto offset = static_cast<std::size_t>(first_row * s.dim) * size_of(w.x.type);
    return const_tensor_ref(static_cast<const std::byte*>(w.x.data) + offset, w.x.type, s.batches,
                            heads, tokens, s.dim, heads * head, head, s.dim);
  };
  const const_tensor_ref query = tensor(0, s.heads, s.tokens());
  const const_tensor_ref key = tensor(s.query_rows(), s.key_heads, s.keys);
  const const_tensor_ref value = tensor(s.query_rows() + s.key_rows(), s.key_heads, s.keys);
  const tensor_ref out(w.y.data, w.y.type, query.batches, query.heads, query.tokens, query.dim,
                       query.batch_stride, query.head_stride, query.token_stride);
  attention_options options;
  options.corner = s.causal ? causal::bottom_right : causal::none;
  if (s.sequences > 0) {
    const std::int64_t n = s.sequences + 1;
    auto* const starts = static_cast<std::int64_t*>(w.starts.data);
    options.key_starts = {starts, dtype::i64, n};
    options.query_starts = {starts + n, dtype::i64, n};
    options.most_queries = s.queries;
    options.most_keys = attention_shape::keys_of(0);
  }
  return [=] { attention(*q, query, key, value, out, options); };
}

/// The operation of the case, on q.
[[nodiscard]] inline work softfold_call(const std::shared_ptr<queue>& q, const workload& w) {
  switch (w.spec.op) {
    case operation::softmax:
      return [q, w] { softmax(*q, w.x, w.y); };
    case operation::log_softmax:
      return [q, w] { log_softmax(*q, w.x, w.y); };
    case operation::softmax_backward:
      return [q, w] { softmax_backward(*q, w.x, w.dy, w.y); };
    case operation::log_softmax_backward:
      return [q, w] { log_softmax_backward(*q, w.x, w.dy, w.y); };
    case operation::logsumexp:
      return [q, w] { logsumexp(*q, w.x, w.lse); };
    case operation::topk:
      return [q, w] { topk(*q, w.x, w.values, w.indices); };
    case operation::softmax_topk:
      return [q, w] { softmax_topk(*q, w.x, w.values, w.indices); };
    case operation::masked_softmax:
    case operation::sparse_softmax:
      return [q, w] {
        softmax_options options;
        options.edits.mask = w.mask;
        softmax(*q, w.x, w.y, options);
      };
    case operation::scan:
      return [q, w] { scan(*q, w.x, w.y); };
    case operation::attention:
      return attention_call(q, w);
    case operation::sample:
    case operation::sample_top_k_p:
    case operation::sample_top_p:
    case operation::sample_min_p:
    case operation::sample_raw:
      return [q, w, options = drawing(w)]() mutable {
        sample(*q, w.x, w.indices, options);
        ++options.offset;
      };
  }
  return {};
}
[[nodiscard]] inline work softfold_call(queue own, const workload& w) {
  return softfold_call(std::make_shared<queue>(std::move(own)), w);
}

}  // namespace softfold::bench
