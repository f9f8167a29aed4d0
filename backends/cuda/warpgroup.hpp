// SPDX-License-Identifier: Apache-2.0
/// \file
/// Products of matrices by four warps together, of devices of compute capability 9.0 (compiled for
/// 9.0a). They go on while their warps do, and read shared memory by themselves. PTX ISA, section
/// "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
#pragma once

#include "hopper.hpp"

#include <softfold/dtype.hpp>

#include <cstdint>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The half that differs of a descriptor of an operand in shared memory. Groups of eight rows are
/// 1024 bytes apart; `blocks`: bytes from a block of columns to the next.
struct product_operand {
  std::uint32_t low;

  __device__ static product_operand of(std::uint32_t address, std::uint32_t blocks) {
    return {(address & 0x3ffffU) >> 4 | blocks >> 4 << 16};
  }
  /// One addition, as instructions between products are waited for.
  [[nodiscard]] __device__ product_operand further(int bytes) const {
    return {low + static_cast<std::uint32_t>(bytes) / 16};
  }
};
#define SOFTFOLD_OPERAND_HIGH "0x40000040"

/// Rows of 16-bit elements in shared memory as a product takes them: columns in blocks of 64, a
/// block's rows one after the other, in pieces of 16 bytes that change places by the row's number.
template <int rows, int dims>
struct swizzled_tile {
  static constexpr int pieces = dims / 8;
  static constexpr int bytes = rows * dims * 2;
  static constexpr int row_bytes = 128;
  static constexpr int block_bytes = rows * row_bytes;
  static_assert(dims % 64 == 0 && rows % 8 == 0);

  SOFTFOLD_HD static constexpr std::uint32_t at(int row, int piece) {
    return static_cast<std::uint32_t>(piece / 8 * block_bytes + row * row_bytes +
                                      ((piece ^ row) & 7) * 16);
  }

  /// The operand of rows that begin at `tile` + 128 times their number, as rows times columns:
  /// rows are the result's, columns are summed over; and from columns 16 `step` on.
  __device__ static product_operand rows_at(std::uint32_t tile) {
    return product_operand::of(tile, 16);
  }
  __device__ static product_operand by_rows(product_operand of, int step) {
    return of.further(step / 4 * block_bytes + step % 4 * 32);
  }
  /// The operand of all columns, where rows are summed over; and from rows 16 `step` on.
  __device__ static product_operand columns_at(std::uint32_t tile) {
    return product_operand::of(tile, block_bytes);
  }
  __device__ static product_operand by_columns(product_operand of, int step) {
    return of.further(step * 2048);
  }
};

/// Before the first product after its registers were written.
__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Ends a group of products.
__device__ inline void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits for all groups but the last `count`.
template <int count>
__device__ inline void wait_for_products_but() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(count) : "memory");
}
/// What this thread wrote to shared memory, or waited for, is there for products.
__device__ inline void show_to_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/// The compiler's view of registers that products under way write to.
template <int columns>
__device__ inline void hold(float (&d)[columns][4]) {
#pragma unroll
  for (int c = 0; c < columns; ++c) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      asm volatile("" : "+f"(d[c][i])::"memory");
    }
  }
}

/// What x, which is not negative, is computed from comes before this, and not as late as possible:
/// a branch that is never taken, too long to be none.
__device__ inline void finish_before_here(float x, std::uint32_t shared) {
  if (x < 0) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      asm volatile("st.volatile.shared.f32 [%0], %1;" ::"r"(shared + 4 * i), "f"(x + i) : "memory");
    }
  }
}

/// Waits for the four warps of a group; `barrier` is its number, from 1 on.
__device__ inline void synchronize_group(int barrier) {
  asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory");
}

/// Registers of the group's threads.
template <int count>
__device__ inline void have_more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
__device__ inline void have_fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

// Operands of the instructions: a group of 32 registers of d by its numbers, and the variables.
// clang-format off
#define SOFTFOLD_NUMBERS_0 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define SOFTFOLD_NUMBERS_32 \
  SOFTFOLD_NUMBERS_32_TO_39 ", %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SOFTFOLD_NUMBERS_32_TO_39 "%32, %33, %34, %35, %36, %37, %38, %39"
#define SOFTFOLD_NUMBERS_64 \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define SOFTFOLD_NUMBERS_96 \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define SOFTFOLD_32 SOFTFOLD_NUMBERS_0
#define SOFTFOLD_40 SOFTFOLD_32 ", " SOFTFOLD_NUMBERS_32_TO_39
#define SOFTFOLD_64 SOFTFOLD_32 ", " SOFTFOLD_NUMBERS_32
#define SOFTFOLD_128 SOFTFOLD_64 ", " SOFTFOLD_NUMBERS_64 ", " SOFTFOLD_NUMBERS_96
#define SOFTFOLD_ROW(d, r) "+f"(d[r][0]), "+f"(d[r][1]), "+f"(d[r][2]), "+f"(d[r][3])
#define SOFTFOLD_ROWS(d, r) \
  SOFTFOLD_ROW(d, r), SOFTFOLD_ROW(d, r + 1), SOFTFOLD_ROW(d, r + 2), SOFTFOLD_ROW(d, r + 3), \
  SOFTFOLD_ROW(d, r + 4), SOFTFOLD_ROW(d, r + 5), SOFTFOLD_ROW(d, r + 6), SOFTFOLD_ROW(d, r + 7)
// clang-format on

/// d = a b, or d += a b: 64 rows by as many columns as d has, 16 summed over; both operands in
/// shared memory, a row of b for each column. Lanes have of d what multiply_add's c has.
#define SOFTFOLD_MULTIPLY_ROWS(type, columns, registers, a, b, adds, ...)                 \
  asm volatile("{\n.reg .b64 a, b;\nmov.b64 a, {" a ", " SOFTFOLD_OPERAND_HIGH            \
               "};\nmov.b64 b, {" b ", " SOFTFOLD_OPERAND_HIGH                            \
               "};\n.reg .pred p;\nsetp.ne.b32 p, " adds                                  \
               ", 0;\nwgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type \
               " {" registers "}, a, b, p, 1, 1, 0, 0;\n}"                                \
               : __VA_ARGS__                                                              \
               : "r"(rows.low), "r"(columns_of.low), "r"(static_cast<int>(is_sum)))
template <class In>
__device__ inline void multiply_rows(float (&d)[10][4], product_operand rows,
                                     product_operand columns_of, bool is_sum) {
  if constexpr (std::is_same_v<In, half>) {
    SOFTFOLD_MULTIPLY_ROWS("f16", "80", SOFTFOLD_40, "%40", "%41", "%42", SOFTFOLD_ROWS(d, 0),
                           SOFTFOLD_ROW(d, 8), SOFTFOLD_ROW(d, 9));
  } else {
    SOFTFOLD_MULTIPLY_ROWS("bf16", "80", SOFTFOLD_40, "%40", "%41", "%42", SOFTFOLD_ROWS(d, 0),
                           SOFTFOLD_ROW(d, 8), SOFTFOLD_ROW(d, 9));
  }
}
template <class In>
__device__ inline void multiply_rows(float (&d)[16][4], product_operand rows,
                                     product_operand columns_of, bool is_sum) {
  if constexpr (std::is_same_v<In, half>) {
    SOFTFOLD_MULTIPLY_ROWS("f16", "128", SOFTFOLD_64, "%64", "%65", "%66", SOFTFOLD_ROWS(d, 0),
                           SOFTFOLD_ROWS(d, 8));
  } else {
    SOFTFOLD_MULTIPLY_ROWS("bf16", "128", SOFTFOLD_64, "%64", "%65", "%66", SOFTFOLD_ROWS(d, 0),
                           SOFTFOLD_ROWS(d, 8));
  }
}

/// d += a b: a in registers as multiply_add's, b in shared memory by_columns.
#define SOFTFOLD_MULTIPLY_COLUMNS(type, columns, registers, a, b, ...)                  \
  asm volatile("{\n.reg .b64 b;\nmov.b64 b, {" b ", " SOFTFOLD_OPERAND_HIGH             \
               "};\nwgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type \
               " {" registers "}, {" a "}, b, 1, 1, 1, 1;\n}"                           \
               : __VA_ARGS__                                                            \
               : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(columns_of.low))
template <class In>
__device__ inline void multiply_columns(float (&d)[8][4], const std::uint32_t (&rows)[4],
                                        product_operand columns_of) {
  if constexpr (std::is_same_v<In, half>) {
    SOFTFOLD_MULTIPLY_COLUMNS("f16", "64", SOFTFOLD_32, "%32, %33, %34, %35", "%36",
                              SOFTFOLD_ROWS(d, 0));
  } else {
    SOFTFOLD_MULTIPLY_COLUMNS("bf16", "64", SOFTFOLD_32, "%32, %33, %34, %35", "%36",
                              SOFTFOLD_ROWS(d, 0));
  }
}
template <class In>
__device__ inline void multiply_columns(float (&d)[16][4], const std::uint32_t (&rows)[4],
                                        product_operand columns_of) {
  if constexpr (std::is_same_v<In, half>) {
    SOFTFOLD_MULTIPLY_COLUMNS("f16", "128", SOFTFOLD_64, "%64, %65, %66, %67", "%68",
                              SOFTFOLD_ROWS(d, 0), SOFTFOLD_ROWS(d, 8));
  } else {
    SOFTFOLD_MULTIPLY_COLUMNS("bf16", "128", SOFTFOLD_64, "%64, %65, %66, %67", "%68",
                              SOFTFOLD_ROWS(d, 0), SOFTFOLD_ROWS(d, 8));
  }
}
template <class In>
__device__ inline void multiply_columns(float (&d)[32][4], const std::uint32_t (&rows)[4],
                                        product_operand columns_of) {
  if constexpr (std::is_same_v<In, half>) {
    SOFTFOLD_MULTIPLY_COLUMNS("f16", "256", SOFTFOLD_128, "%128, %129, %130, %131", "%132",
                              SOFTFOLD_ROWS(d, 0), SOFTFOLD_ROWS(d, 8), SOFTFOLD_ROWS(d, 16),
                              SOFTFOLD_ROWS(d, 24));
  } else {
    SOFTFOLD_MULTIPLY_COLUMNS("bf16", "256", SOFTFOLD_128, "%128, %129, %130, %131", "%132",
                              SOFTFOLD_ROWS(d, 0), SOFTFOLD_ROWS(d, 8), SOFTFOLD_ROWS(d, 16),
                              SOFTFOLD_ROWS(d, 24));
  }
}

#undef SOFTFOLD_MULTIPLY_COLUMNS
#undef SOFTFOLD_MULTIPLY_ROWS
#undef SOFTFOLD_OPERAND_HIGH
#undef SOFTFOLD_ROWS
#undef SOFTFOLD_ROW
#undef SOFTFOLD_128
#undef SOFTFOLD_64
#undef SOFTFOLD_40
#undef SOFTFOLD_32
#undef SOFTFOLD_NUMBERS_96
#undef SOFTFOLD_NUMBERS_64
#undef SOFTFOLD_NUMBERS_32
#undef SOFTFOLD_NUMBERS_32_TO_39
#undef SOFTFOLD_NUMBERS_0

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
