// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include "load.hpp"
#include "platform.hpp"

#include <softfold/version.hpp>

#include <nlohmann/json.hpp>

#include <sys/utsname.h>
#include <unistd.h>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <string>

namespace softfold::bench {
namespace {

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string system_name() {
  utsname name{};
  uname(&name);
  return std::string(name.sysname) + ' ' + name.release + ' ' + name.machine;
}

std::string date() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

std::string version() {
  return std::to_string(SOFTFOLD_VERSION_MAJOR) + '.' + std::to_string(SOFTFOLD_VERSION_MINOR) +
         '.' + std::to_string(SOFTFOLD_VERSION_PATCH);
}

#if defined(__clang__)
constexpr const char* compiler = "clang " __clang_version__;
#elif defined(__GNUC__)
constexpr const char* compiler = "gcc " __VERSION__;
#else
constexpr const char* compiler = "unknown";
#endif

}  // namespace

nlohmann::ordered_json describe_machine(const device_info& device) {
  const auto pages = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES));
  const auto page = static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  nlohmann::ordered_json machine = {
      {"version", version()},
      {"backend", device.backend},
      {"device", device.device},
      {"isa", device.isa},
      {"processors", device.threads},
      {"l1_bytes", device.l1_bytes},
      {"l2_bytes", device.l2_bytes},
      {"l3_bytes", device.l3_bytes},
      {"memory_bytes", pages * page},
      {"huge_pages", first_line("/sys/kernel/mm/transparent_hugepage/enabled")},
      {"system", system_name()},
      {"compiler", compiler},
      {"flags", SOFTFOLD_BENCH_FLAGS},
      {"date", date()},
      {"load_average", load_average()}};
  machine.update(describe_device());
  return machine;
}

}  // namespace softfold::bench
