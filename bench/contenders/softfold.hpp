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
    case operation::logsumexp:
      return [q, w] { logsumexp(*q, w.x, w.lse); };
    case operation::topk:
      return [q, w] { topk(*q, w.x, w.values, w.indices); };
    case operation::softmax_topk:
      return [q, w] { softmax_topk(*q, w.x, w.values, w.indices); };
  }
  return {};
}

}  // namespace softfold::bench
