// SPDX-License-Identifier: Apache-2.0
/// \file
/// The operations of any backend: a program that links two has them once for each.
#pragma once

#include "contender.hpp"

#include <softfold/softfold.hpp>

#include <memory>
#include <utility>

namespace softfold::bench {

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
      return [q, w] {
        softmax_options options;
        options.edits.mask = w.mask;
        softmax(*q, w.x, w.y, options);
      };
    case operation::scan:
      return [q, w] { scan(*q, w.x, w.y); };
    case operation::sample:
      return [q, w, offset = std::uint64_t{0}]() mutable {
        sample(*q, w.x, w.indices, {.seed = 1, .offset = offset++});
      };
  }
  return {};
}

}  // namespace softfold::bench
