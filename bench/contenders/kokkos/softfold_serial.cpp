// SPDX-License-Identifier: Apache-2.0
#include "contenders.hpp"
#include "contenders/softfold.hpp"

#include <softfold/kokkos.hpp>

namespace softfold::bench {

contender softfold_serial_contender() {
  return {.name = "softfold_serial", .prepare = [](const workload& w) -> work {
#ifdef KOKKOS_ENABLE_SERIAL
            if constexpr (!std::is_same_v<Kokkos::DefaultExecutionSpace, Kokkos::Serial>) {
              return softfold_call(softfold::make_queue(Kokkos::Serial()), w);
            }
#endif
            static_cast<void>(w);
            return {};
          }};
}

}  // namespace softfold::bench
