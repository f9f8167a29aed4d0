// SPDX-License-Identifier: Apache-2.0
#include <backends/host/machine.hpp>

#include <softfold/error.hpp>

#if defined(SOFTFOLD_HAS_AVX2) || defined(SOFTFOLD_HAS_AMX)
#include <cpuid.h>
#endif
#if defined(SOFTFOLD_HAS_AMX)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <fstream>
#include <string_view>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// The size of a level's data cache as one core sees it, from the kernel's description of the
/// first processor; `usual` if there is none. (sysconf adds up the caches of all sockets.)
std::size_t cache_bytes(int level, std::size_t usual) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    int found_level = 0;
    std::string type;
    std::size_t kilobytes = 0;
    std::ifstream(folder + "level") >> found_level;
    std::ifstream(folder + "type") >> type;
    std::ifstream(folder + "size") >> kilobytes;  // "1024K"
    if (found_level == level && type != "Instruction" && kilobytes > 0) {
      return kilobytes << 10;
    }
  }
  return usual;
}

#if defined(SOFTFOLD_HAS_AVX2)
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

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

#if defined(SOFTFOLD_HAS_AVX512_BF16)
const kernel_table& avx512_with_dot_products() {
  static const kernel_table table = [] {
    kernel_table t = avx512_kernels;
    t.isa = "avx512_bf16";
    t.attention[input_bf16] = avx512_bf16_kernels.attention_bf16;
    return t;
  }();
  return table;
}
#endif

#if defined(SOFTFOLD_HAS_AMX)
const kernel_table& avx512_with_tiles() {
  static const kernel_table table = [] {
    kernel_table t = avx512_with_dot_products();
    t.isa = "amx";
    t.attention[input_bf16] = amx_kernels.attention_bf16;
    t.attention_at_once[input_bf16] = {attention_most_row_blocks, attention_most_key_block};
    return t;
  }();
  return table;
}
#endif

#if defined(SOFTFOLD_HAS_AVX512)
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

#if defined(SOFTFOLD_HAS_AVX512_BF16)
bool has_avx512_bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }
#endif

#if defined(SOFTFOLD_HAS_AMX)
/// Whether the processor and the system have tiles of bf16, and the process may use them: Linux
/// wants to be asked before the first use, once for all threads.
bool has_amx() {
  static const bool may_use = [] {
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    constexpr unsigned bf16_and_tiles = 1U << 22 | 1U << 24;
    if (!has_avx512_bf16() || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 ||
        (d & bf16_and_tiles) != bf16_and_tiles) {
      return false;
    }
    unsigned enabled = 0;
    unsigned high = 0;
    __asm__("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
    constexpr unsigned tile_state = 3U << 17;
    constexpr int request_permission = 0x1023;
    constexpr int tile_data = 18;
    return (enabled & tile_state) == tile_state &&
           syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  }();
  return may_use;
}
#endif

#if defined(SOFTFOLD_HAS_AVX2)
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
#endif

struct candidate {
  const kernel_table& kernels;
  bool (*supported)();
};

}  // namespace

machine read_machine() {
  return {.processor = processor_name(),
          .l1_bytes = cache_bytes(1, std::size_t{32} << 10),
          .l2_bytes = cache_bytes(2, std::size_t{1} << 20),
          .l3_bytes = cache_bytes(3, 0)};
}

const kernel_table& choose_kernels(const char* forced) {
  if (forced != nullptr && *forced == '\0') {
    forced = nullptr;  // as if the variable were not set
  }
  const candidate widest_first[] = {
#if defined(SOFTFOLD_HAS_AMX)
    {avx512_with_tiles(), has_amx},
#endif
#if defined(SOFTFOLD_HAS_AVX512_BF16)
    {avx512_with_dot_products(), has_avx512_bf16},
#endif
#if defined(SOFTFOLD_HAS_AVX512)
    {avx512_kernels, has_avx512},
#endif
#if defined(SOFTFOLD_HAS_AVX2)
    {avx2_kernels, has_avx2},
#endif
    {baseline_kernels, [] { return true; }},
  };
  std::string known;
  for (const candidate& c : widest_first) {
    if (forced == nullptr || forced == std::string_view(c.kernels.isa)) {
      if (c.supported()) {
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

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
