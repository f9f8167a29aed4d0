// SPDX-License-Identifier: Apache-2.0
// Softmax and top-k by two libraries, as a user without a fused one would.
#include "buffer.hpp"
#include "contenders.hpp"
#include "onednn.hpp"
#include "partial_sort.hpp"

#include <memory>

namespace softfold::bench {
namespace {

work prepare(const workload& w) {
  if (w.spec.op != operation::softmax_topk) {
    return {};
  }
  // Kept from case to case, so that its pages are not mapped anew for each.
  static buffer probabilities;
  probabilities.resize(w.spec.input_bytes());
  const matrix_ref y{probabilities.data(), w.x.type, w.x.rows, w.x.cols, w.x.cols};
  work softmax = onednn::softmax(w.x, y, false, w.spec.threads);
  if (!softmax) {
    return {};
  }
  return [softmax, sort = partial_sort_rows(y, w.values, w.indices, w.spec.threads)] {
    softmax();
    sort();
  };
}

}  // namespace

contender onednn_partial_sort_contender() {
  return {.name = "onednn_partial_sort", .version = onednn::version(), .prepare = prepare};
}

}  // namespace softfold::bench
