// SPDX-License-Identifier: Apache-2.0
/// \file
/// What masks, lengths, corners and windows leave of rows, for kernels that read rows as they are
/// and leave out what is removed: see masked_tile.hpp.
#pragma once

#include <gpu/contract.hpp>

#include <core/edits.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The columns that are left of a range of a row; numbers are relative to the range's first, which
/// is a multiple of 8.
struct kept_columns {
  const std::uint8_t* mask;  ///< of the first column; null: all are left
  bool bytes;                ///< a byte for each column, else a bit
  int first;                 ///< those before it and from `last` on are removed
  int last;

  /// Bits of the vectors number(j), of `width` = 4 or 8 columns each, a bit for each column, 0 for
  /// vectors that has(j) denies.
  template <int width, int V, class Number, class Has>
  __device__ void find(std::uint32_t (&bits)[V], const Number& number, const Has& has) const {
    if (mask == nullptr) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        bits[j] = has(j) ? (1U << width) - 1 : 0;
      }
    } else if (!bytes) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        bits[j] = 0;
        if (has(j)) {
          bits[j] = mask[width == 8 ? number(j) : number(j) >> 1];
        }
      }
      if constexpr (width == 4) {
#pragma unroll
        for (int j = 0; j < V; ++j) {
          bits[j] = bits[j] >> (number(j) & 1) * 4 & 15U;
        }
      }
    } else {
      constexpr int words = width / 4;
      const auto* const fours = reinterpret_cast<const std::uint32_t*>(mask);
      std::uint32_t read[V * words];
#pragma unroll
      for (int i = 0; i < V * words; ++i) {
        read[i] = 0;
        if (has(i / words)) {
          read[i] = fours[number(i / words) * words + i % words];
        }
      }
#pragma unroll
      for (int j = 0; j < V; ++j) {
        bits[j] = ones(read[j * words]);
        if constexpr (words == 2) {
          bits[j] |= ones(read[j * words + 1]) << 4;
        }
      }
    }
  }
  /// The bits of vector v that lie within `first` and `last`.
  template <int width>
  [[nodiscard]] __device__ std::uint32_t inside(int v) const {
    const auto from = [](int column) {
      return shift_left(~std::uint32_t{0}, column > 0 ? column : 0);
    };
    return from(first - v * width) & ~from(last - v * width);
  }
  /// Of a mask of bits: a bit for each of the vectors from 8 `line` on, and before `end`, of which
  /// the mask leaves a column.
  template <int width>
  [[nodiscard]] __device__ std::uint32_t vectors_left(int line, int end) const {
    const auto* const words = reinterpret_cast<const std::uint32_t*>(mask);
    const int rest = end - 8 * line;
    std::uint32_t left = 0;
    if constexpr (width == 4) {
      left = rest > 0 ? words[line] : 0;
      left |= left >> 1;
      left = (left | left >> 2) & 0x11111111U;
      left = (left | left >> 3) & 0x03030303U;
      left = (left | left >> 6) & 0x000f000fU;
      left |= left >> 12;
    } else {
      left = ones(rest > 0 ? words[2 * line] : 0) | ones(rest > 4 ? words[2 * line + 1] : 0) << 4;
    }
    return left & 0xffU & ~shift_left(~std::uint32_t{0}, rest > 0 ? rest : 0);
  }

 private:
  /// A bit for each byte that is not 0.
  __device__ static std::uint32_t ones(std::uint32_t four) {
    const std::uint32_t high = ((four & 0x7f7f7f7fU) + 0x7f7f7f7fU) | four;
    return ((high >> 7 & 0x01010101U) * 0x01020408U) >> 24;  // no two products meet
  }
};

/// core::edits that only remove, but for those by a bias, as kernels take them.
struct row_removals {
  const std::uint8_t* mask;  ///< null: none
  std::int64_t mask_stride;  ///< in bytes
  bool bytes;
  const void* lengths;
  dtype lengths_type;
  causal corner;
  std::uint32_t queries;
  int window;  ///< 0: none
  std::uint32_t first_row;

  /// Of rows, of columns and of a window.
  static constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() / 2;

  /// Whether rows of a matrix with these edits can be read with them.
  [[nodiscard]] static bool takes(const core::edits& e, std::int64_t rows, std::int64_t cols) {
    // Bytes are read by words of four.
    const bool in_words =
        e.mask.type != dtype::u8 || (reinterpret_cast<std::uintptr_t>(e.mask.data) % 4 == 0 &&
                                     (rows == 1 || e.mask.stride % 4 == 0));
    return !e.changes_values() && e.bias.data == nullptr && in_words && cols < most &&
           e.first_row + rows < most && e.queries < most;
  }
  static row_removals of(const core::edits& e) {
    const bool bytes = e.mask.type == dtype::u8;
    return {.mask = static_cast<const std::uint8_t*>(e.mask.data),
            .mask_stride = e.mask.stride * (bytes ? 1 : 4),
            .bytes = bytes,
            .lengths = e.lengths.data,
            .lengths_type = e.lengths.type,
            .corner = e.corner,
            .queries = static_cast<std::uint32_t>(std::max<std::int64_t>(e.queries, 1)),
            .window = static_cast<int>(std::min(e.window, most)),
            .first_row = static_cast<std::uint32_t>(e.first_row)};
  }
  /// Those of the rows from `row` on.
  [[nodiscard]] row_removals from(std::int64_t row) const {
    row_removals rest = *this;
    rest.first_row += static_cast<std::uint32_t>(row);
    return rest;
  }

  /// Of row `row` of `cols` columns from number `column` on; see core::edited_row.
  [[nodiscard]] __device__ kept_columns of_row(std::int64_t row, std::int64_t column,
                                               std::int64_t cols) const {
    const std::uint32_t number = first_row + static_cast<std::uint32_t>(row);
    const int begin = static_cast<int>(column);
    kept_columns kept{mask_at(number, column), bytes, 0, static_cast<int>(cols)};
    if (lengths != nullptr) {
      core::end_at(kept.last, core::integer_at(lengths, lengths_type, number));
    }
    if (corner != causal::none) {
      core::see_from_corner(kept.first, kept.last, static_cast<int>(cols), corner,
                            static_cast<int>(queries), static_cast<int>(number % queries), window);
    }
    kept.first -= begin;
    kept.last -= begin;
    return kept;
  }

  /// Asks for the mask of `vectors` vectors of `width` columns from number `column` of row `row`
  /// on, by the threads of a block.
  __device__ void prefetch(std::int64_t row, std::int64_t column, int vectors, int width) const {
    constexpr int line = 128;
    const int size = bytes ? vectors * width : vectors * width / 8;
    if (mask != nullptr && mask_stride != 0) {
      const std::uint8_t* const from = mask_at(first_row + static_cast<std::uint32_t>(row), column);
      for (int at = static_cast<int>(threadIdx.x) * line; at < size;
           at += static_cast<int>(blockDim.x) * line) {
        prefetch_line(from + at);
      }
    }
  }

 private:
  [[nodiscard]] __device__ const std::uint8_t* mask_at(std::uint32_t number,
                                                       std::int64_t column) const {
    return mask == nullptr
               ? nullptr
               : mask + std::int64_t{number} * mask_stride + (bytes ? column : column / 8);
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
