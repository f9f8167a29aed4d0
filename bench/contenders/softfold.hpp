// SPDX-License-Identifier: Apache-2.0
/// \file
/// The operations of any backend: a program that links two has them once for each.
#pragma once

#include "contender.hpp"

#include <softfold/softfold.hpp>

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

/// The operation of the case, on q.
[[nodiscard]] inline work softfold_call(queue own, const workload& w) {
  const auto q = std::make_shared<queue>(std::move(own));
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

}  // namespace softfold::bench
