// SPDX-License-Identifier: Apache-2.0
#include "contenders.hpp"
#include "team.hpp"

#include <cstddef>
#include <cstring>

namespace softfold::bench {
namespace {

work prepare(const workload& w) {
  if (!w.spec.writes_matrix()) {
    return {};
  }
  const auto* from = static_cast<const std::byte*>(w.x.data);
  auto* to = static_cast<std::byte*>(w.y.data);
  const auto bytes = static_cast<std::int64_t>(w.spec.copied_bytes());
  return [=, threads = team(w.spec.threads)] {
    threads.split(bytes, 4096, [=](std::int64_t begin, std::int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
    });
  };
}

}  // namespace

contender memcpy_contender() {
  return {.name = "memcpy", .role = role::ceiling, .prepare = prepare};
}

}  // namespace softfold::bench
