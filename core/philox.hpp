// SPDX-License-Identifier: Apache-2.0
/// \file
/// Philox4x32 (Salmon, Moraes, Dror and Shaw, SC 2011): random words from a counter and a key, the
/// same on every machine. With 7 rounds it passes BigCrush by its authors' account; 10 leave a
/// margin.
#pragma once

#include <core/always_inline.hpp>

#include <softfold/config.hpp>

#include <cstdint>

namespace softfold::core {

/// What a round multiplies words by, and what is added to the key after it.
struct philox {
  static constexpr std::uint32_t multiplier_a = 0xD2511F53U, multiplier_c = 0xCD9E8D57U;
  static constexpr std::uint32_t step_low = 0x9E3779B9U, step_high = 0xBB67AE85U;
};

/// A counter, or the words made of it.
struct philox_words {
  std::uint32_t a, b, c, d;
};

template <int rounds>
SOFTFOLD_HD constexpr SOFTFOLD_INLINE philox_words philox4x32(philox_words w, std::uint32_t key_low,
                                                              std::uint32_t key_high) {
  for (int i = 0; i < rounds; ++i) {
    const std::uint64_t first = std::uint64_t{philox::multiplier_a} * w.a;
    const std::uint64_t second = std::uint64_t{philox::multiplier_c} * w.c;
    w = {static_cast<std::uint32_t>(second >> 32) ^ w.b ^ key_low,
         static_cast<std::uint32_t>(second),
         static_cast<std::uint32_t>(first >> 32) ^ w.d ^ key_high,
         static_cast<std::uint32_t>(first)};
    key_low += philox::step_low;
    key_high += philox::step_high;
  }
  return w;
}

}  // namespace softfold::core
