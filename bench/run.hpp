// SPDX-License-Identifier: Apache-2.0
/// \file
/// Times the contenders of one case.
#pragma once

#include "clock.hpp"
#include "contender.hpp"
#include "load.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace softfold::bench {

/// One contender's timings, in seconds for one call.
struct measurement {
  std::string name;
  bench::role role = role::peer;
  double median = 0;
  double lowest = 0;
  double highest = 0;
  int rounds = 0;
  std::int64_t calls = 0;  ///< in one timing
  double own_share = 0;    ///< processor time of the process over wall time, median
};

struct case_result {
  bench_case spec;
  std::vector<measurement> measurements;
  load_meter::reading load;
  bool loaded = false;  ///< others were using the machine: the case is suspect
};

/// Round after round times each contender that has the operation, one after another, beginning
/// with another one each time: what slows the machine down for a while slows them all.
[[nodiscard]] case_result run_case(const workload& w, const std::vector<contender>& contenders,
                                   const run_settings& settings);

}  // namespace softfold::bench
