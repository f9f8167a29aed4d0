// SPDX-License-Identifier: Apache-2.0
/// \file
/// The top 16 random bits of columns, in vectors.
#pragma once

#include <backends/host/kernels/lanes.hpp>

#include <core/sampling.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// The top 16 random bits of columns, in their order: Philox4x32 with 7 rounds, a block of 8
/// columns in each 64-bit lane, of whose words the lower halves count.
class noise_blocks {
  static constexpr int blocks = static_cast<int>(sizeof(key_vector) / 8);

 public:
  static constexpr int columns = 8 * blocks;

  /// `column`: the first, a multiple of `columns`.
  SOFTFOLD_INLINE noise_blocks(const core::sampling::noise& n, std::int64_t column)
      : noise_(n), block_(static_cast<std::uint64_t>(column) / 8) {}

  /// Those of the next columns, at least n, to `bits`, which has room for up to columns - 1 more.
  SOFTFOLD_INLINE void write(std::uint16_t* bits, std::int64_t n) {
    // Blocks share the upper half of their number, and with it three words of the counter, until
    // 2^35 columns are through.
    for (std::int64_t i = 0; i < n;) {
      const rounds of(noise_, block_);
      const std::uint64_t left = (std::uint64_t{1} << 32) - (block_ & 0xffffffffU);
      const std::uint64_t wanted = static_cast<std::uint64_t>(n - i + 7) / 8;
      const std::uint64_t end = block_ + (wanted < left ? wanted : left);
      for (; block_ < end; block_ += blocks, i += columns) {
        of.write(bits + i, block_);
      }
    }
  }
  SOFTFOLD_INLINE void skip(std::int64_t n) { block_ += static_cast<std::uint64_t>(n) / 8; }

 private:
  static SOFTFOLD_INLINE key_vector all(std::uint64_t x) { return key_vector{} + x; }

  /// The rounds for blocks whose numbers have one upper half. What they share of the first three
  /// is computed once.
  class rounds {
   public:
    SOFTFOLD_INLINE rounds(const core::sampling::noise& noise, std::uint64_t block) {
      using core::philox;
      const core::philox_words counter = core::sampling::counter_of(noise, block, 0);
      auto key_low = static_cast<std::uint32_t>(noise.seed);
      auto key_high = static_cast<std::uint32_t>(noise.seed >> 32);
      const auto next = [&] {
        key_low += philox::step_low;
        key_high += philox::step_high;
      };
      const std::uint64_t second = std::uint64_t{philox::multiplier_c} * counter.c;
      shared_[0] = all(counter.d ^ key_high);
      const auto a = static_cast<std::uint32_t>(second >> 32) ^ counter.b ^ key_low;
      next();
      const std::uint64_t first = std::uint64_t{philox::multiplier_a} * a;
      shared_[1] = all(static_cast<std::uint32_t>(second) ^ key_low);
      shared_[2] = all(static_cast<std::uint32_t>(first >> 32) ^ key_high);
      next();
      low_[0] = all(key_low);
      high_[0] = all(static_cast<std::uint32_t>(first) ^ key_high);
#pragma GCC unroll 4
      for (int i = 1; i < 5; ++i) {
        next();
        low_[i] = all(key_low);
        high_[i] = all(key_high);
      }
    }

    SOFTFOLD_INLINE void write(std::uint16_t* bits, std::uint64_t block) const {
      constexpr std::uint64_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7};
      const key_vector by_a = all(core::philox::multiplier_a);
      const key_vector by_c = all(core::philox::multiplier_c);
      key_vector a;
      __builtin_memcpy(&a, numbers, sizeof a);
      a += all(block & 0xffffffffU);
      key_vector d = multiply_low_halves(a, by_a);
      key_vector b = multiply_low_halves((d >> 32) ^ shared_[0], by_c);
      a = (b >> 32) ^ shared_[1];
      key_vector c = d ^ shared_[2];
      d = key_vector{};
#pragma GCC unroll 5
      for (int round = 0; round < 5; ++round) {
        const key_vector first = multiply_low_halves(a, by_a);
        const key_vector second = multiply_low_halves(c, by_c);
        a = (second >> 32) ^ b ^ low_[round];
        b = second;
        c = (first >> 32) ^ d ^ high_[round];
        d = first;
      }
      const key_vector low = (a & 0xffffffffU) | b << 32;
      const key_vector high = (c & 0xffffffffU) | d << 32;
      if constexpr (blocks == 1) {
        __builtin_memcpy(bits, &low, sizeof low);
        __builtin_memcpy(bits + 4, &high, sizeof high);
      } else {
        key_vector even, odd;
        interleave_lanes<blocks>(low, high, even, odd);
        __builtin_memcpy(bits, &even, sizeof even);
        __builtin_memcpy(bits + columns / 2, &odd, sizeof odd);
      }
    }

   private:
    key_vector shared_[3];
    key_vector low_[5];
    key_vector high_[5];
  };

  const core::sampling::noise noise_;
  std::uint64_t block_;
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
