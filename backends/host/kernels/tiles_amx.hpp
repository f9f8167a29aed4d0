// SPDX-License-Identifier: Apache-2.0
/// \file
/// AMX's eight tile registers, each of 16 rows of 64 bytes: what attention_amx.hpp asks of a type
/// of tiles.
#pragma once

#include <backends/host/kernels/memory_types.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// The thread's tiles, from configure to release, so that no other code runs, or is switched to,
/// with them. Two functions and no destructor: cleaning up after exceptions, which there are none,
/// would be code shared with other translation units. Not by intrinsics: g++'s do not say that a
/// load reads memory.
class amx_tiles {
 public:
  static SOFTFOLD_INLINE void configure() {
    static constexpr configuration all_whole;
    __asm__ volatile("ldtilecfg %0" : : "m"(all_whole));
  }
  static SOFTFOLD_INLINE void release() { __asm__ volatile("tilerelease"); }

  template <int tile>
  SOFTFOLD_INLINE void clear() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(tile));
  }
  /// Row i from p + i stride, in elements of 4 bytes.
  template <int tile>
  SOFTFOLD_INLINE void load(const void* p, std::int64_t stride) {
    __asm__ volatile("tileloadd (%1,%2,1), %%tmm%c0"
                     :
                     : "i"(tile), "r"(p), "r"(stride * 4)
                     : "memory");
  }
  template <int tile>
  SOFTFOLD_INLINE void store(void* p, std::int64_t stride) {
    __asm__ volatile("tilestored %%tmm%c0, (%1,%2,1)"
                     :
                     : "i"(tile), "r"(p), "r"(stride * 4)
                     : "memory");
  }
  /// sums[m][n] += the sum over k of the products of the pairs a[m][k] and b[k][n]. Subnormal
  /// elements and results are 0.
  template <int sums, int a, int b>
  SOFTFOLD_INLINE void dot() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(a), "i"(b));
  }

 private:
  struct alignas(64) configuration {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
};

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
