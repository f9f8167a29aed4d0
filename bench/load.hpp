// SPDX-License-Identifier: Apache-2.0
/// \file
/// How busy the machine is with other work.
#pragma once

namespace softfold::bench {

/// Measures from its construction on.
class load_meter {
 public:
  load_meter();

  struct reading {
    double wall_seconds = 0;
    /// Processors kept busy by others, on average, with what a hypervisor took. Negative if the
    /// system does not say.
    double others = -1;
  };
  [[nodiscard]] reading read() const;

 private:
  double wall_, machine_, own_;
};

/// Processors' worth of others' work that makes a timing suspect.
inline constexpr double others_limit = 0.1;
/// Processor time over wall time of one thread, below which a timing is suspect.
inline constexpr double own_share_limit = 0.95;
/// The system counts in ticks; a shorter time says little.
inline constexpr double shortest_reading = 0.2;

/// The 1-minute load average, or a negative number.
[[nodiscard]] double load_average();

}  // namespace softfold::bench
