// SPDX-License-Identifier: Apache-2.0
// The device's copy bandwidth, by Kokkos' own copy and by a kernel.
#include "buffer.hpp"
#include "contenders.hpp"
#include "device.hpp"

#include <cstddef>
#include <cstdint>

namespace softfold::bench {
namespace {

struct copy_range {
  void* from;
  void* to;
  std::size_t bytes;
};

copy_range range_of(const workload& w) {
  const std::size_t bytes = w.spec.input_bytes();
  void* const from = const_cast<void*>(w.x.data);  // a view of const would not be of bytes
  if (w.spec.writes_matrix()) {
    return {from, w.y.data, bytes};
  }
  static buffer scratch;  // kept from case to case
  scratch.resize(bytes / 2);
  return {from, scratch.data(), bytes / 2};
}

struct copy_line {
  const line* from;
  line* to;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { to[i] = from[i]; }
};

}  // namespace

contender deep_copy_contender() {
  return {.name = "deep_copy", .role = role::ceiling, .prepare = [](const workload& w) -> work {
            const copy_range range = range_of(w);
            const device_bytes to(static_cast<char*>(range.to), range.bytes);
            const device_bytes from(static_cast<char*>(range.from), range.bytes);
            return [to, from] { Kokkos::deep_copy(device_exec(), to, from); };
          }};
}

contender copy_kernel_contender() {
  return {
      .name = "copy_kernel", .role = role::ceiling, .prepare = [](const workload& w) -> work {
        const copy_range range = range_of(w);
        const copy_line body{static_cast<const line*>(range.from), static_cast<line*>(range.to)};
        return [body, bytes = range.bytes] { for_each_line(bytes, body); };
      }};
}

}  // namespace softfold::bench
