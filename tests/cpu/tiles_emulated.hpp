// SPDX-License-Identifier: Apache-2.0
/// \file
/// tiles_amx.hpp's tiles in plain C++, with the same bits.
#pragma once

#include <backends/host/kernels/memory_types.hpp>

#include <cmath>
#include <cstring>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

class emulated_tiles {
 public:
  void configure() {}
  void release() {}
  template <int tile>
  void clear() {
    std::memset(&tiles_[tile], 0, sizeof tiles_[tile]);
  }
  template <int tile>
  void load(const void* p, std::int64_t stride) {
    for (int i = 0; i < 16; ++i) {
      std::memcpy(tiles_[tile].rows[i], static_cast<const std::uint32_t*>(p) + i * stride, 64);
    }
  }
  template <int tile>
  void store(void* p, std::int64_t stride) {
    for (int i = 0; i < 16; ++i) {
      std::memcpy(static_cast<std::uint32_t*>(p) + i * stride, tiles_[tile].rows[i], 64);
    }
  }
  /// First and second elements of pairs have a sum each.
  template <int sums, int a, int b>
  void dot() {
    for (int m = 0; m < 16; ++m) {
      float both[2][16] = {};
      for (int k = 0; k < 16; ++k) {
        for (int half = 0; half < 2; ++half) {
          const float left = element(tiles_[a].rows[m][k], half);
          for (int n = 0; n < 16; ++n) {
            // The product of two bf16 is exact.
            both[half][n] = normal(both[half][n] + left * element(tiles_[b].rows[k][n], half));
          }
        }
      }
      for (int n = 0; n < 16; ++n) {
        std::uint32_t& sum = tiles_[sums].rows[m][n];
        sum = __builtin_bit_cast(std::uint32_t, normal(normal(__builtin_bit_cast(float, sum)) +
                                                       normal(both[0][n] + both[1][n])));
      }
    }
  }

 private:
  static float normal(float x) { return std::fabs(x) < 0x1p-126F ? std::copysign(0.0F, x) : x; }
  static float element(std::uint32_t pair, int half) {
    return normal(__builtin_bit_cast(float, half == 0 ? pair << 16 : pair & 0xffff0000U));
  }

  struct tile_register {
    std::uint32_t rows[16][16];
  };
  tile_register tiles_[8];
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
