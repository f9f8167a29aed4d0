// SPDX-License-Identifier: Apache-2.0
// The largest of all elements: one read and nothing else. The bytes of any element type are read
// as f32, because what the read measures is bytes.
#include "contenders.hpp"
#include "team.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace softfold::bench {
namespace {

using read_function = float (*)(const float* x, std::size_t count);

constexpr float lowest = -std::numeric_limits<float>::infinity();

// Lane by lane, which a compiler may vectorise: it does not reorder a maximum of one variable.
float read_portable(const float* x, std::size_t count) {
  constexpr std::size_t lanes = 16;
  float max[lanes];
  std::fill_n(max, lanes, lowest);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::size_t j = 0; j < lanes; ++j) {
      max[j] = x[i + j] > max[j] ? x[i + j] : max[j];
    }
  }
  return std::max(
      *std::max_element(max, max + lanes),
      std::accumulate(x + i, x + count, lowest, [](float a, float b) { return b > a ? b : a; }));
}

#ifdef __x86_64__

// Four registers in turn, which hide the latency of a maximum.
__attribute__((target("avx512f"))) float read_avx512(const float* x, std::size_t count) {
  __m512 a = _mm512_set1_ps(lowest), b = a, c = a, d = a;
  std::size_t i = 0;
  for (; i + 64 <= count; i += 64) {
    a = _mm512_max_ps(a, _mm512_loadu_ps(x + i));
    b = _mm512_max_ps(b, _mm512_loadu_ps(x + i + 16));
    c = _mm512_max_ps(c, _mm512_loadu_ps(x + i + 32));
    d = _mm512_max_ps(d, _mm512_loadu_ps(x + i + 48));
  }
  alignas(64) float lanes[16];
  _mm512_store_ps(lanes, _mm512_max_ps(_mm512_max_ps(a, b), _mm512_max_ps(c, d)));
  return std::max(*std::max_element(lanes, lanes + 16), read_portable(x + i, count - i));
}

__attribute__((target("avx2"))) float read_avx2(const float* x, std::size_t count) {
  __m256 a = _mm256_set1_ps(lowest), b = a, c = a, d = a;
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    a = _mm256_max_ps(a, _mm256_loadu_ps(x + i));
    b = _mm256_max_ps(b, _mm256_loadu_ps(x + i + 8));
    c = _mm256_max_ps(c, _mm256_loadu_ps(x + i + 16));
    d = _mm256_max_ps(d, _mm256_loadu_ps(x + i + 24));
  }
  alignas(32) float lanes[8];
  _mm256_store_ps(lanes, _mm256_max_ps(_mm256_max_ps(a, b), _mm256_max_ps(c, d)));
  return std::max(*std::max_element(lanes, lanes + 8), read_portable(x + i, count - i));
}

read_function best_read() {
  if (__builtin_cpu_supports("avx512f")) {
    return read_avx512;
  }
  return __builtin_cpu_supports("avx2") ? read_avx2 : read_portable;
}

#else

read_function best_read() { return read_portable; }

#endif

work prepare(const workload& w) {
  const auto* x = static_cast<const float*>(w.x.data);
  const auto count = static_cast<std::int64_t>(w.spec.input_bytes() / sizeof(float));
  return [=, read = best_read(), threads = team(w.spec.threads)] {
    threads.split(count, 1024, [=](std::int64_t begin, std::int64_t end) {
      benchmark::DoNotOptimize(read(x + begin, static_cast<std::size_t>(end - begin)));
    });
  };
}

}  // namespace

contender one_read_contender() {
  return {.name = "one_read", .role = role::ceiling, .prepare = prepare};
}

}  // namespace softfold::bench
