// SPDX-License-Identifier: Apache-2.0
#include "contenders.hpp"
#include "contenders/softfold.hpp"

namespace softfold::bench {

contender softfold_cpu_contender() {
  return {.name = "softfold_cpu", .prepare = [](const workload& w) {
            return softfold_call(queue({.threads = w.spec.threads}), w);
          }};
}

}  // namespace softfold::bench
