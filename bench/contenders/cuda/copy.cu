// SPDX-License-Identifier: Apache-2.0
// The device's copy bandwidth, by the runtime's own copy and by a kernel. An operation that writes
// no matrix is measured against a copy of half of its input, which moves as many bytes as one read
// of the whole.
#include "buffer.hpp"
#include "contenders.hpp"
#include "device.hpp"

#include <cstdint>

namespace softfold::bench {
namespace {

struct copy_range {
  const void* from;
  void* to;
  std::size_t bytes;
};

copy_range range_of(const workload& w) {
  const std::size_t bytes = w.spec.input_bytes();
  if (w.spec.writes_matrix()) {
    return {w.x.data, w.y.data, w.spec.copied_bytes()};
  }
  static buffer scratch;  // kept from case to case
  scratch.resize(bytes / 2);
  return {w.x.data, scratch.data(), bytes / 2};
}

constexpr int threads = 256;
constexpr int loads = 4;  // in flight for each thread

__global__ void __launch_bounds__(threads)
    copy_lines(const uint4* __restrict__ from, uint4* __restrict__ to, std::int64_t lines) {
  const std::int64_t first = std::int64_t{blockIdx.x} * (threads * loads) + threadIdx.x;
  uint4 held[loads];
#pragma unroll
  for (int i = 0; i < loads; ++i) {
    if (first + i * threads < lines) {
      held[i] = from[first + i * threads];
    }
  }
#pragma unroll
  for (int i = 0; i < loads; ++i) {
    if (first + i * threads < lines) {
      to[first + i * threads] = held[i];
    }
  }
}

work prepare_memcpy(const workload& w) {
  return [range = range_of(w)] {
    check(cudaMemcpyAsync(range.to, range.from, range.bytes, cudaMemcpyDeviceToDevice,
                          device_stream()),
          "cudaMemcpyAsync");
  };
}

work prepare_kernel(const workload& w) {
  const copy_range range = range_of(w);
  const auto lines = static_cast<std::int64_t>(range.bytes / sizeof(uint4));
  const auto blocks = static_cast<unsigned>((lines + threads * loads - 1) / (threads * loads));
  if (blocks == 0) {
    return {};
  }
  return [=] {
    copy_lines<<<blocks, threads, 0, device_stream()>>>(static_cast<const uint4*>(range.from),
                                                        static_cast<uint4*>(range.to), lines);
  };
}

}  // namespace

contender memcpy_contender() {
  return {.name = "memcpy", .role = role::ceiling, .prepare = prepare_memcpy};
}

contender copy_kernel_contender() {
  return {.name = "copy_kernel", .role = role::ceiling, .prepare = prepare_kernel};
}

}  // namespace softfold::bench
