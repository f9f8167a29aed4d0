// SPDX-License-Identifier: Apache-2.0
#include "contenders.hpp"

#include <softfold/softfold.hpp>

#include <memory>

namespace softfold::bench {
namespace {

work prepare(const workload& w) {
  const auto q = std::make_shared<queue>(queue_options{.threads = w.spec.threads});
  switch (w.spec.op) {
    case operation::softmax:
      return [q, w] {
        softmax(*q, w.x, w.y);
        q->wait();
      };
    case operation::log_softmax:
      return [q, w] {
        log_softmax(*q, w.x, w.y);
        q->wait();
      };
    case operation::logsumexp:
      return [q, w] {
        logsumexp(*q, w.x, w.lse);
        q->wait();
      };
    case operation::topk:
      return [q, w] {
        topk(*q, w.x, w.values, w.indices);
        q->wait();
      };
    case operation::softmax_topk:
      return [q, w] {
        softmax_topk(*q, w.x, w.values, w.indices);
        q->wait();
      };
  }
  return {};
}

}  // namespace

contender softfold_contender() {
  return {.name = "softfold", .role = role::subject, .prepare = prepare};
}

}  // namespace softfold::bench
