// SPDX-License-Identifier: Apache-2.0
// Memory and clock of backends whose device is the host.
#include "platform.hpp"

#include "buffer.hpp"
#include "clock.hpp"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace softfold::bench {

void* allocate_memory(std::size_t bytes) {
  constexpr std::size_t alignment = 64;  // a cache line, and so of the widest vectors
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return std::memset(memory, 0, rounded);  // map the pages now, not in the first timing
}

void release_memory(void* memory) noexcept { std::free(memory); }

void write_memory(void* to, std::size_t /*bytes*/, const std::function<void(std::byte*)>& write) {
  write(static_cast<std::byte*>(to));
}

void read_memory(const void* from, std::size_t bytes, void* to) { std::memcpy(to, from, bytes); }

void spoil_memory(void* to, std::size_t bytes) { std::memset(to, 0xff, bytes); }

queue make_queue(int threads) { return queue({.threads = threads}); }

void wait_for_calls() {}

// Wall time, and the processor time of all threads beside it: where one thread works, a gap
// between them is time that the machine gave to others.
void configure_clock(benchmark::internal::Benchmark& b) {
  b.UseRealTime()->MeasureProcessCPUTime();
}

void time_calls(benchmark::State& state, const std::function<void()>& call) {
  for (auto _ : state) {
    call();
    benchmark::ClobberMemory();
  }
}

run_settings default_settings(bool quick) {
  if (quick) {
    return {.min_time = 0.005, .rounds = 3, .fewest_rounds = 1, .budget = 0.5};
  }
  return {.min_time = 0.02, .rounds = 7, .fewest_rounds = 3, .budget = 1};
}

}  // namespace softfold::bench
