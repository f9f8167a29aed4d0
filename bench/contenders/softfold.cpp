// SPDX-License-Identifier: Apache-2.0
#include "contenders/softfold.hpp"

#include "platform.hpp"

namespace softfold::bench {

contender softfold_contender() {
  return {.name = "softfold", .role = role::subject, .prepare = [](const workload& w) {
            return softfold_call(make_queue(w.spec.threads), w);
          }};
}

}  // namespace softfold::bench
