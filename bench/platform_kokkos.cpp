// SPDX-License-Identifier: Apache-2.0
// On a host, memory and clock are platform_host.cpp's.
#include "platform.hpp"

#include <Kokkos_Core.hpp>

#include <nlohmann/json.hpp>

#include <string>

#ifdef SOFTFOLD_BENCH_ON_DEVICE
#include "buffer.hpp"
#include "clock.hpp"
#include "contenders/kokkos/device.hpp"

#include <benchmark/benchmark.h>

#include <new>
#include <stdexcept>
#include <vector>
#endif

namespace softfold::bench {

#ifdef SOFTFOLD_BENCH_ON_DEVICE
namespace {

constexpr std::size_t flush_bytes = std::size_t{256} << 20;  // several times any L2 cache

struct read_line {
  const line* from;
  line* to;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    if (from[i].words[0] != 0) {  // never: the memory is zeroed, which the compiler cannot know
      to[i] = {};
    }
  }
};

struct spoil_byte {
  unsigned char* to;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { to[i] = 0xff; }
};

// A read, as a write would leave dirty lines, whose writing back would count as the call's.
void flush_cache() {
  static buffer memory;
  memory.resize(flush_bytes);
  auto* const lines = static_cast<line*>(memory.data());
  for_each_line(flush_bytes, read_line{lines, lines});
}

#ifdef KOKKOS_ENABLE_CUDA

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
  }
}

class event {
 public:
  event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~event() { cudaEventDestroy(event_); }
  event(const event&) = delete;
  event& operator=(const event&) = delete;

  void record() { check(cudaEventRecord(event_, device_exec().cuda_stream()), "cudaEventRecord"); }
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

#else

// Kokkos has no events: the host's time between fences, with the launch in it.
class event {
 public:
  void record() {
    device_exec().fence();
    seconds_ = timer().seconds();
  }
  [[nodiscard]] double seconds_since(const event& begin) const { return seconds_ - begin.seconds_; }

 private:
  static Kokkos::Timer& timer() {
    static Kokkos::Timer since_start;
    return since_start;
  }
  double seconds_ = 0;
};

#endif

}  // namespace

void* allocate_memory(std::size_t bytes) {
  void* memory = nullptr;
  try {
    memory = Kokkos::kokkos_malloc<device_memory>("softfold_bench", bytes);
  } catch (const std::exception&) {
    throw std::bad_alloc();
  }
  Kokkos::deep_copy(device_bytes(static_cast<char*>(memory), bytes), char{0});
  return memory;
}

void release_memory(void* memory) noexcept { Kokkos::kokkos_free<device_memory>(memory); }

void write_memory(void* to, std::size_t bytes, const std::function<void(std::byte*)>& write) {
  std::vector<std::byte> host(bytes);
  write(host.data());
  Kokkos::deep_copy(device_bytes(static_cast<char*>(to), bytes),
                    host_bytes(reinterpret_cast<char*>(host.data()), bytes));
}

void read_memory(const void* from, std::size_t bytes, void* to) {
  Kokkos::deep_copy(host_bytes(static_cast<char*>(to), bytes),
                    device_bytes(static_cast<char*>(const_cast<void*>(from)), bytes));
}

// Not by Kokkos::deep_copy, which hands a view to the device: g++ 12 and nvcc 13 lay out those of
// Kokkos 4.6.99 differently.
void spoil_memory(void* to, std::size_t bytes) {
  using policy = Kokkos::RangePolicy<device_exec, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for("softfold_bench", policy(device_exec(), 0, static_cast<std::int64_t>(bytes)),
                       spoil_byte{static_cast<unsigned char*>(to)});
}

queue make_queue(int /*threads*/) { return queue(); }

void wait_for_calls() { Kokkos::fence(); }

void configure_clock(benchmark::internal::Benchmark& b) { b.UseManualTime(); }

// The device is still busy with the flush while the host launches the call, so the time between
// events on the device is the device's alone.
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
}

run_settings default_settings(bool quick) {
  if (quick) {
    return {.min_time = 0.001, .rounds = 3, .fewest_rounds = 2, .budget = 0.02};
  }
  return {.min_time = 0.002, .rounds = 5, .fewest_rounds = 3, .budget = 0.05};
}
#endif

nlohmann::ordered_json describe_device() {
  nlohmann::ordered_json device = {{"kokkos", std::to_string(KOKKOS_VERSION / 10000) + '.' +
                                                  std::to_string(KOKKOS_VERSION / 100 % 100) + '.' +
                                                  std::to_string(KOKKOS_VERSION % 100)},
                                   {"execution_space", Kokkos::DefaultExecutionSpace::name()},
                                   {"concurrency", Kokkos::DefaultExecutionSpace().concurrency()}};
#ifdef KOKKOS_ENABLE_CUDA
  int index = 0;
  int driver = 0;
  int runtime = 0;
  cudaDeviceProp properties{};
  check(cudaGetDevice(&index), "cudaGetDevice");
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  device.update({{"gpu", properties.name},
                 {"multiprocessors", properties.multiProcessorCount},
                 {"device_l2_bytes", properties.l2CacheSize},
                 {"device_memory_bytes", properties.totalGlobalMem},
                 {"cuda_driver", driver},
                 {"cuda_runtime", runtime}});
#endif
  return device;
}

}  // namespace softfold::bench
