// SPDX-License-Identifier: Apache-2.0
// A copy whose stores bypass the caches: no line is read before it is overwritten.
#include "contenders.hpp"
#include "team.hpp"

#include <cstddef>
#include <cstring>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace softfold::bench {
namespace {

#ifdef __x86_64__

using copy_function = void (*)(const std::byte* from, std::byte* to, std::size_t bytes);

// Each copies whole lines of 64 bytes, aligned to 64.
__attribute__((target("avx512f"))) void copy_avx512(const std::byte* from, std::byte* to,
                                                    std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 64) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_load_si512(from + i));
  }
  _mm_sfence();
}

__attribute__((target("avx2"))) void copy_avx2(const std::byte* from, std::byte* to,
                                               std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 64) {
    const auto* source = reinterpret_cast<const __m256i*>(from + i);
    auto* target = reinterpret_cast<__m256i*>(to + i);
    _mm256_stream_si256(target, _mm256_load_si256(source));
    _mm256_stream_si256(target + 1, _mm256_load_si256(source + 1));
  }
  _mm_sfence();
}

void copy_sse2(const std::byte* from, std::byte* to, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 64) {
    const auto* source = reinterpret_cast<const __m128i*>(from + i);
    auto* target = reinterpret_cast<__m128i*>(to + i);
    for (int part = 0; part < 4; ++part) {
      _mm_stream_si128(target + part, _mm_load_si128(source + part));
    }
  }
  _mm_sfence();
}

copy_function best_copy() {
  if (__builtin_cpu_supports("avx512f")) {
    return copy_avx512;
  }
  return __builtin_cpu_supports("avx2") ? copy_avx2 : copy_sse2;
}

work prepare(const workload& w) {
  if (!w.spec.writes_matrix()) {
    return {};
  }
  const auto* from = static_cast<const std::byte*>(w.x.data);
  auto* to = static_cast<std::byte*>(w.y.data);
  const auto bytes = static_cast<std::int64_t>(w.spec.copied_bytes());
  return [=, copy = best_copy(), threads = team(w.spec.threads)] {
    threads.split(bytes, 4096, [=](std::int64_t begin, std::int64_t end) {
      const auto part = static_cast<std::size_t>(end - begin);
      const std::size_t lines = part / 64 * 64;
      copy(from + begin, to + begin, lines);
      std::memcpy(to + begin + lines, from + begin + lines, part - lines);
    });
  };
}

#else

work prepare(const workload&) { return {}; }

#endif

}  // namespace

contender copy_nontemporal_contender() {
  return {.name = "copy_nontemporal", .role = role::ceiling, .prepare = prepare};
}

}  // namespace softfold::bench
