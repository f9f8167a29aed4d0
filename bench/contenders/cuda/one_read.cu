// SPDX-License-Identifier: Apache-2.0
// The largest of all elements, block by block: one read and nothing else. The bytes of any element
// type are read as f32, because what the read measures is bytes.
#include "buffer.hpp"
#include "contenders.hpp"
#include "device.hpp"

#include <algorithm>
#include <cstdint>

namespace softfold::bench {
namespace {

constexpr int threads = 256;
constexpr int loads = 4;  // in flight for each thread
constexpr std::int64_t tile = threads * loads;
constexpr int blocks_per_multiprocessor = 8;

__device__ float max_of(const float4& v) { return fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)); }

__global__ void __launch_bounds__(threads)
    read_lines(const float4* __restrict__ from, std::int64_t lines, float* __restrict__ largest) {
  float max = -INFINITY;
  const std::int64_t step = std::int64_t{gridDim.x} * tile;
  std::int64_t first = std::int64_t{blockIdx.x} * tile;
  for (; first + tile <= lines; first += step) {
    float4 held[loads];
#pragma unroll
    for (int i = 0; i < loads; ++i) {
      held[i] = from[first + i * threads + threadIdx.x];
    }
#pragma unroll
    for (int i = 0; i < loads; ++i) {
      max = fmaxf(max, max_of(held[i]));
    }
  }
  for (std::int64_t i = first + threadIdx.x; i < lines; i += threads) {
    max = fmaxf(max, max_of(from[i]));
  }
  // Without this store the compiler would drop the reads; the condition keeps it from happening.
  if (max > 3e38f) {
    *largest = max;
  }
}

float* result() {
  static buffer memory;
  memory.resize(sizeof(float));
  return static_cast<float*>(memory.data());
}

work prepare(const workload& w) {
  if (w.spec.writes_matrix()) {
    return {};
  }
  return [from = w.x.data, bytes = w.spec.input_bytes()] {
    launch_read(from, bytes, device_stream());
  };
}

}  // namespace

void launch_read(const void* from, std::size_t bytes, cudaStream_t stream) {
  const auto lines = static_cast<std::int64_t>(bytes / sizeof(float4));
  const std::int64_t most = std::int64_t{multiprocessors()} * blocks_per_multiprocessor;
  const std::int64_t blocks = std::clamp<std::int64_t>((lines + tile - 1) / tile, 1, most);
  read_lines<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(
      static_cast<const float4*>(from), lines, result());
}

contender one_read_contender() {
  return {.name = "one_read", .role = role::ceiling, .prepare = prepare};
}

}  // namespace softfold::bench
