// SPDX-License-Identifier: Apache-2.0
// A hash of everything that a test case has copied back from the backend, so that two builds'
// results can be compared bit for bit: --hashes prints it after each case.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace softfold::test {

/// The sum of the copies' FNV-1a hashes: in any order, from any thread.
inline std::atomic<std::uint64_t> result_hash{0};

inline void add_to_result_hash(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte b : bytes) {
    hash = (hash ^ static_cast<std::uint64_t>(b)) * 0x100000001b3;
  }
  result_hash += hash;
}

}  // namespace softfold::test
