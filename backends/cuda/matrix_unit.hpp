// SPDX-License-Identifier: Apache-2.0
/// \file
/// The matrix unit of devices of compute capability 8.0 and newer, and what feeds it: products of
/// 16-bit elements that a warp has in its registers, and tiles of them in shared memory. PTX ISA,
/// sections "mma", "ldmatrix", "movmatrix" and "cp.async".
#pragma once

#include <gpu/contract.hpp>

#include <softfold/dtype.hpp>

#include <cstdint>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// c += a b, of 16 x 16 and 16 x 8 elements. Lane l has, g = l / 4 and t = l % 4:
///   a   rows g, g + 8, g, g + 8; columns 2 t and the next, for the last two 8 further
///   b   rows 2 t and the next, then 8 further; column g
///   c   rows g, g, g + 8, g + 8; columns 2 t, 2 t + 1, 2 t, 2 t + 1
template <class In>
__device__ inline void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                    std::uint32_t b1) {
  if constexpr (std::is_same_v<In, half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// The same in f64, of 16 x 8 and 8 x 8 elements, each sum rounded as fused multiply-adds are. The
/// lane has:
///   a   rows g, g + 8, g, g + 8; columns t, t, t + 4, t + 4
///   b   rows t and t + 4; column g
__device__ inline void multiply_add(double (&c)[4], const double (&a)[4], double b0, double b1) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b0), "d"(b1));
#else
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int h = i % 2 * 2;
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(c[h]), "+d"(c[h + 1])
        : "d"(a[i]), "d"(i < 2 ? b0 : b1));
  }
#endif
}

/// Four matrices of 8 x 8 elements, lanes 8 i to 8 i + 7 giving the addresses of matrix i's rows;
/// lane l gets row l / 4, columns 2 (l % 4) and the next, of each.
__device__ inline void load_matrices(std::uint32_t (&to)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}
/// The same of the transposed matrices.
__device__ inline void load_transposed(std::uint32_t (&to)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

/// The transposed matrix of 8 x 8 elements, of which lane l has, and gets, row l / 4, columns 2 (l
/// % 4) and the next.
__device__ inline std::uint32_t transposed(std::uint32_t matrix) {
  std::uint32_t to;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(to) : "r"(matrix));
  return to;
}

/// Copies the first `bytes` of 16 to shared memory, and zeros for the others, while the thread goes
/// on.
__device__ inline void copy_ahead(std::uint32_t shared, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(from),
               "r"(bytes)
               : "memory");
}
/// The same of all 16 bytes, which takes fewer instructions.
__device__ inline void copy_ahead(std::uint32_t shared, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared), "l"(from)
               : "memory");
}
/// Ends a group of the thread's copies.
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits for all the thread's groups but the last `count`.
template <int count>
__device__ inline void wait_for_copies_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(count) : "memory");
}

/// Rows of `dims` 16-bit elements in shared memory, in pieces of 16 bytes. The pieces of a row
/// change places by its number, so that the same piece of eight rows is in eight different banks.
template <int dims>
struct matrix_tile {
  static constexpr int pieces = dims / 8;
  static_assert(pieces % 8 == 0);

  static constexpr int row_bytes = dims * 2;

  static constexpr int bytes(int rows) { return rows * row_bytes; }
  SOFTFOLD_HD static constexpr std::uint32_t at(int row, int piece) {
    return static_cast<std::uint32_t>(row * pieces + (piece ^ (row & 7))) * 16;
  }
};

/// A piece of a tile from 8 elements that need not be aligned, `count` of them; the others are 0.
/// Not in line: it is for the matrices of few.
template <class In>
__device__ __noinline__ void copy_singly(std::uint32_t shared, const In* from, int count) {
  std::uint32_t words[4] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i < count) {
      words[i / 2] |= std::uint32_t{from[i].bits} << (i % 2 * 16);
    }
  }
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(words[0]),
               "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

/// Rows of a matrix of 16-bit elements in global memory to a tile, by threads that have a piece of
/// each of some rows.
template <class Tile, int threads>
struct tile_copy {
  static constexpr int pieces = Tile::pieces;
  static constexpr int rows_a_turn = threads / pieces;

  bool in_pieces;  ///< every row begins at a multiple of 16 bytes
  int first_row;
  int piece;
  int count;  ///< elements of the piece that rows have

  __device__ static tile_copy of(std::int64_t dim, bool in_pieces, int thread) {
    const int piece = thread % pieces;
    const int left = static_cast<int>(dim) - piece * 8;
    return {in_pieces, thread / pieces, piece, left < 0 ? 0 : left > 8 ? 8 : left};
  }

  /// `from`: element 0 of the row, `exists` or not.
  template <class In>
  __device__ void copy_row(std::uint32_t tile, int row, const In* from, bool exists) const {
    const std::uint32_t to = tile + Tile::at(row, piece);
    const int own = exists ? count : 0;
    const In* const at = own > 0 ? from + piece * 8 : from;
    in_pieces ? copy_ahead(to, at, own * 2) : copy_singly(to, at, own);
  }
  /// `rows` rows, of which the first `existing` exist, from `from`, the matrix's first, on.
  template <int rows, class In>
  __device__ void copy_rows(std::uint32_t tile, const In* from, std::int64_t stride,
                            int existing) const {
    if (!in_pieces) {
#pragma unroll 1
      for (int row = first_row; row < rows; row += rows_a_turn) {
        copy_row(tile, row, row < existing ? from + row * stride : from, row < existing);
      }
      return;
    }
    const In* own = from + first_row * stride + (count > 0 ? piece * 8 : 0);
    const std::int64_t step = rows_a_turn * stride;
    const std::uint32_t first = Tile::at(first_row, piece);
    constexpr int turns = rows / rows_a_turn;
    if (existing < rows || count < 8) {
#pragma unroll 1
      for (int i = 0; i < turns; ++i) {
        const bool exists = first_row + i * rows_a_turn < existing;
        copy_ahead(tile + at_turn(first, i), exists ? own : from, exists ? count * 2 : 0);
        own += step;
      }
      return;
    }
    // The instructions of this are what a warp that only copies is made of.
    constexpr int together = turns < 8 ? turns : 8;
    static_assert(turns % together == 0 && together * rows_a_turn % 8 == 0);
    static_assert(places_are_right(turns));
#pragma unroll 1
    for (int begin = 0; begin < turns; begin += together) {
#pragma unroll
      for (int i = 0; i < together; ++i) {
        copy_ahead(tile + at_turn(first, i), own);
        own += step;
      }
      tile += together * rows_a_turn * Tile::row_bytes;
    }
  }

 private:
  /// Where the piece of a row that is `turn` turns further is, given the place of the first's. The
  /// number of the first has no bit in common with that of the turn's.
  SOFTFOLD_HD static constexpr std::uint32_t at_turn(std::uint32_t first, int turn) {
    const auto rows = static_cast<std::uint32_t>(turn * rows_a_turn);
    return (first ^ (rows & 7U) * 16) + rows * Tile::row_bytes;
  }
  static constexpr bool places_are_right(int turns) {
    for (int i = 0; i < turns * threads; ++i) {
      const int row = i / pieces % rows_a_turn;
      const int turn = i / threads;
      if (at_turn(Tile::at(row, i % pieces), turn) !=
          Tile::at(row + turn * rows_a_turn, i % pieces)) {
        return false;
      }
    }
    return true;
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
