// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <softfold/error.hpp>

#include <unistd.h>

#include <fstream>
#include <string_view>

namespace softfold::cpu_backend {
namespace {

std::size_t cache_bytes(int sysconf_name, std::size_t usual) {
  const long bytes = sysconf(sysconf_name);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : usual;
}

std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.starts_with("model name")) {
      const auto colon = line.find(": ");
      return colon == std::string::npos ? "unknown" : line.substr(colon + 2);
    }
  }
  return "unknown";
}

struct candidate {
  const kernel_table& kernels;
  bool supported;
};

}  // namespace

machine read_machine() {
  return {.processor = processor_name(),
          .l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, std::size_t{32} << 10),
          .l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, std::size_t{1} << 20),
          .l3_bytes = cache_bytes(_SC_LEVEL3_CACHE_SIZE, 0)};
}

const kernel_table& choose_kernels(const char* forced) {
  const candidate widest_first[] = {
#if defined(__x86_64__)
    {avx512_kernels, __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")},
    {avx2_kernels, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                       __builtin_cpu_supports("f16c")},
#endif
    {baseline_kernels, true},
  };
  std::string known;
  for (const candidate& c : widest_first) {
    if (forced == nullptr || forced == std::string_view(c.kernels.isa)) {
      if (c.supported) {
        return c.kernels;
      }
      if (forced != nullptr) {
        throw error(errc::invalid_argument, std::string("queue: SOFTFOLD_ISA is ") + forced +
                                                ", expected one that this processor has");
      }
    }
    known += (known.empty() ? "" : ", ") + std::string(c.kernels.isa);
  }
  throw error(errc::invalid_argument,
              std::string("queue: SOFTFOLD_ISA is ") + forced + ", expected one of " + known);
}

}  // namespace softfold::cpu_backend
