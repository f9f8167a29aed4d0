// SPDX-License-Identifier: Apache-2.0
/// \file
/// How calls are timed. A device's clock goes here: UseManualTime() in configure(), and in time()
/// a flush of the caches, an event on either side of the call and SetIterationTime().
#pragma once

#include <benchmark/benchmark.h>

namespace softfold::bench {

struct clock {
  /// Wall time, and the processor time of all threads beside it: where one thread works, a gap
  /// between them is time that the machine gave to others.
  static void configure(benchmark::internal::Benchmark& b) {
    b.UseRealTime()->MeasureProcessCPUTime();
  }

  template <class Call>
  static void time(benchmark::State& state, const Call& call) {
    for (auto _ : state) {
      call();
      benchmark::ClobberMemory();
    }
  }
};

}  // namespace softfold::bench
