// SPDX-License-Identifier: Apache-2.0
/// \file
/// How calls are timed: on a host by wall time, on a device by its own events, with the caches
/// flushed before each call.
#pragma once

#include <functional>

namespace benchmark {
class State;
namespace internal {
class Benchmark;
}
}  // namespace benchmark

namespace softfold::bench {

struct run_settings {
  double min_time = 0;    ///< seconds of one timing
  int rounds = 1;         ///< timings of each contender
  int fewest_rounds = 1;  ///< of a contender that has used up its budget
  double budget = 0;      ///< seconds of a contender's timings in one case; one timing that is
                          ///< longer is the only one
};

[[nodiscard]] run_settings default_settings(bool quick);

/// Chooses what Google Benchmark measures.
void configure_clock(benchmark::internal::Benchmark& b);
/// Measures it, for as many calls as `state` wants.
void time_calls(benchmark::State& state, const std::function<void()>& call);
/// Returns when all calls so far are complete. Throws std::runtime_error if one of them failed.
void wait_for_calls();

}  // namespace softfold::bench
