// SPDX-License-Identifier: Apache-2.0
#include "contenders.hpp"
#include "contenders/cpu/contenders.hpp"

namespace softfold::bench {

#ifdef SOFTFOLD_BENCH_ON_DEVICE

std::vector<contender> all_contenders() {
  return {softfold_contender(), deep_copy_contender(), copy_kernel_contender()};
}

std::string standard_peer(const bench_case& /*c*/) { return {}; }

// As on the cuda backend, of half of the input where no matrix is written.
std::vector<std::string> ceilings(const bench_case& /*c*/) { return {"deep_copy", "copy_kernel"}; }

#else

std::vector<contender> all_contenders() {
  return {softfold_contender(), softfold_serial_contender(),  softfold_cpu_contender(),
          memcpy_contender(),   copy_nontemporal_contender(), one_read_contender()};
}

std::string standard_peer(const bench_case& /*c*/) { return "softfold_cpu"; }

std::vector<std::string> ceilings(const bench_case& c) {
  return {c.writes_matrix() ? "memcpy" : "one_read"};
}

#endif

}  // namespace softfold::bench
