// SPDX-License-Identifier: Apache-2.0
#include "contender.hpp"
#include "platform.hpp"

#include <softfold/softfold.hpp>

#include <memory>

namespace softfold::bench {
namespace {

work prepare(const workload& w) {
  const auto q = std::make_shared<queue>(make_queue(w.spec.threads));
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

}  // namespace

contender softfold_contender() {
  return {.name = "softfold", .role = role::subject, .prepare = prepare};
}

}  // namespace softfold::bench
