// SPDX-License-Identifier: Apache-2.0
#include "load.hpp"

#include <unistd.h>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>

namespace softfold::bench {
namespace {

double seconds_of(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Seconds that all processors together have been busy, or a negative number.
double busy_seconds() {
  std::ifstream file("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, softirq = 0, steal = 0;
  if (!(file >> cpu >> user >> nice >> system >> idle >> wait >> irq >> softirq >> steal)) {
    return -1;
  }
  return (user + nice + system + irq + softirq + steal) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

load_meter::load_meter()
    : wall_(seconds_of(CLOCK_MONOTONIC)),
      machine_(busy_seconds()),
      own_(seconds_of(CLOCK_PROCESS_CPUTIME_ID)) {}

load_meter::reading load_meter::read() const {
  reading r;
  r.wall_seconds = seconds_of(CLOCK_MONOTONIC) - wall_;
  const double own = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - own_;
  if (machine_ >= 0 && r.wall_seconds > 0) {
    const double others = busy_seconds() - machine_ - own;
    r.others = others > 0 ? others / r.wall_seconds : 0;
  }
  return r;
}

double load_average() {
  double average = -1;
  return getloadavg(&average, 1) == 1 ? average : -1;
}

}  // namespace softfold::bench
