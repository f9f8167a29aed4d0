// SPDX-License-Identifier: Apache-2.0
#include "buffer.hpp"
#include "clock.hpp"
#include "contenders/cuda/device.hpp"
#include "platform.hpp"

#include <softfold/cuda.hpp>

#include <benchmark/benchmark.h>
#include <nlohmann/json.hpp>

#include <new>
#include <vector>

namespace softfold::bench {
namespace {

int attribute(cudaDeviceAttr name) {
  int device = 0;
  int value = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&value, name, device), "cudaDeviceGetAttribute");
  return value;
}

// Reading several times the cache's size leaves none of a call's data there, and no dirty lines
// whose writing back would count as the call's.
void flush_cache() {
  static buffer memory;
  static const std::size_t bytes = 4 * static_cast<std::size_t>(attribute(cudaDevAttrL2CacheSize));
  memory.resize(bytes);
  launch_read(memory.data(), bytes, device_stream());
}

class event {
 public:
  event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~event() { cudaEventDestroy(event_); }
  event(const event&) = delete;
  event& operator=(const event&) = delete;

  void record() { check(cudaEventRecord(event_, device_stream()), "cudaEventRecord"); }
  // Waits for it.
  [[nodiscard]] double seconds_since(const event& begin) const {
    float milliseconds = 0;
    check(cudaEventSynchronize(event_), "cudaEventSynchronize");
    check(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

std::string version_text(int version) {
  return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

}  // namespace

cudaStream_t device_stream() {
  static const cudaStream_t stream = [] {
    cudaStream_t created = nullptr;
    check(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return created;
  }();
  return stream;
}

int multiprocessors() {
  static const int count = attribute(cudaDevAttrMultiProcessorCount);
  return count;
}

void* allocate_memory(std::size_t bytes) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) != cudaSuccess) {
    cudaGetLastError();  // or the next launch would seem to have failed
    throw std::bad_alloc();
  }
  check(cudaMemset(memory, 0, bytes), "cudaMemset");
  wait_for_calls();
  return memory;
}

void release_memory(void* memory) noexcept { cudaFree(memory); }

void write_memory(void* to, std::size_t bytes, const std::function<void(std::byte*)>& write) {
  std::vector<std::byte> host(bytes);
  write(host.data());
  wait_for_calls();
  check(cudaMemcpy(to, host.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

void read_memory(const void* from, std::size_t bytes, void* to) {
  wait_for_calls();
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

void spoil_memory(void* to, std::size_t bytes) {
  check(cudaMemsetAsync(to, 0xff, bytes, device_stream()), "cudaMemsetAsync");
}

queue make_queue(int /*threads*/) { return softfold::cuda::queue_on(device_stream()); }

void wait_for_calls() {
  check(cudaGetLastError(), "a launch");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void configure_clock(benchmark::internal::Benchmark& b) { b.UseManualTime(); }

// The device is still busy with the flush while the host launches the call, so the time between
// the events is the device's alone.
void time_calls(benchmark::State& state, const std::function<void()>& call) {
  event begin;
  event end;
  for (auto _ : state) {
    flush_cache();
    begin.record();
    call();
    end.record();
    state.SetIterationTime(end.seconds_since(begin));
  }
  check(cudaGetLastError(), "a launch");
}

run_settings default_settings(bool quick) {
  if (quick) {
    return {.min_time = 0.001, .rounds = 3, .fewest_rounds = 2, .budget = 0.02};
  }
  return {.min_time = 0.002, .rounds = 5, .fewest_rounds = 3, .budget = 0.05};
}

nlohmann::ordered_json describe_device() {
  int device = 0;
  int driver = 0;
  int runtime = 0;
  cudaDeviceProp properties{};
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  return {{"compute_capability",
           std::to_string(properties.major) + '.' + std::to_string(properties.minor)},
          {"multiprocessors", properties.multiProcessorCount},
          {"device_l2_bytes", properties.l2CacheSize},
          {"device_memory_bytes", properties.totalGlobalMem},
          {"clock_mhz", attribute(cudaDevAttrClockRate) / 1000},
          {"memory_clock_mhz", attribute(cudaDevAttrMemoryClockRate) / 1000},
          {"memory_bus_bits", attribute(cudaDevAttrGlobalMemoryBusWidth)},
          {"cuda_driver", version_text(driver)},
          {"cuda_runtime", version_text(runtime)},
          {"flush_bytes", 4 * properties.l2CacheSize}};
}

}  // namespace softfold::bench
