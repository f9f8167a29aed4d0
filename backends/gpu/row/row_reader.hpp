// SPDX-License-Identifier: Apache-2.0
/// \file
/// A row's elements, eight neighbouring columns at a time.
#pragma once

#include <gpu/row/removals.hpp>
#include <gpu/row/vector_elements.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Neighbouring columns of a thread, from a multiple of so many on.
constexpr int block_columns = 8;
/// Threads of a block that goes through a row.
constexpr int reader_threads = 256;
/// Blocks of columns that a thread loads at a time.
template <class In>
constexpr int reader_ahead = sizeof(In) == 2 ? 4 : 2;
/// Columns that a block of threads loads at a time.
template <class In>
constexpr std::int64_t reader_step = std::int64_t{reader_threads} * block_columns* reader_ahead<In>;

/// block_columns elements.
template <class In>
struct column_block {
  using arithmetic = arithmetic_t<In>;

  static constexpr int width = vector_width<In>;

  block16 vectors[block_columns / width];

  [[nodiscard]] __device__ arithmetic element(int i) const {
    return element_of<In>(vectors[i / width], i % width);
  }
  /// NaN if there is one.
  [[nodiscard]] __device__ arithmetic largest() const;
  /// Those without a bit become -infinity.
  __device__ void keep(std::uint32_t bits) {
#pragma unroll
    for (int w = 0; w < block_columns / width * 4; ++w) {
      std::uint32_t& word = vectors[w / 4].words[w % 4];
      const std::uint32_t none = no_elements<In>().words[0];
      if constexpr (sizeof(In) == 4) {
        word = (bits >> w & 1U) != 0 ? word : none;
      } else {
        const std::uint32_t kept = pair_mask(bits >> (w / 2 * 4) & 15U, w % 2);
        word = (word & kept) | (none & ~kept);
      }
    }
  }
};

/// The largest element of several blocks; NaN if there is one.
template <class In, int blocks>
__device__ inline arithmetic_t<In> largest_of(const column_block<In> (&of)[blocks]) {
  constexpr int vectors = block_columns / column_block<In>::width;
  if constexpr (sizeof(In) == 2) {
    std::uint32_t most = of[0].vectors[0].words[0];
#pragma unroll
    for (int w = 1; w < blocks * vectors * 4; ++w) {
      most = max_of_pairs<In>(most, of[w / 4 / vectors].vectors[w / 4 % vectors].words[w % 4]);
    }
    const block16 both = {{most, 0, 0, 0}};
    return max_or_nan(element_of<In>(both, 0), element_of<In>(both, 1));
  } else {
    arithmetic_t<In> most = of[0].element(0);
#pragma unroll
    for (int i = 1; i < blocks * block_columns; ++i) {
      most = max_or_nan(most, of[i / block_columns].element(i % block_columns));
    }
    return most;
  }
}
template <class In>
__device__ inline arithmetic_t<In> column_block<In>::largest() const {
  const column_block only[1] = {*this};
  return largest_of(only);
}

/// A row's elements, block_columns at a time.
template <class In>
struct row_reader {
  const In* x;
  std::int64_t cols;
  bool in_vectors;  ///< block_columns elements from a multiple of that on are whole vectors

  __device__ static row_reader of(const In* x, std::int64_t cols) {
    return {x, cols, reinterpret_cast<std::uintptr_t>(x) % vector_bytes == 0};
  }
  /// Those beyond the row are -infinity.
  __device__ void load(std::int64_t first, column_block<In>& to) const {
    constexpr int width = vector_width<In>;
    if (in_vectors && first + block_columns <= cols) {
      return load_vectors(x + first, to);
    }
#pragma unroll
    for (int v = 0; v < block_columns / width; ++v) {
      to.vectors[v] = no_elements<In>();
#pragma unroll
      for (int i = 0; i < width; ++i) {
        if (first + v * width + i < cols) {
          set_element<In>(to.vectors[v], i, x[first + v * width + i]);
        }
      }
    }
  }
  /// A thread's share of the columns from `first` on: its blocks are `step` columns apart.
  /// `by_words`: quicker where the row does not begin at a vector, for kernels with registers for
  /// it.
  template <int step, bool by_words = false, int times>
  __device__ void load(std::int64_t first, column_block<In> (&to)[times]) const {
    const std::int64_t own = first + std::int64_t{threadIdx.x} * block_columns;
    if (in_vectors && first + times * step <= cols) {
#pragma unroll
      for (int a = 0; a < times; ++a) {
        load_vectors(x + own + a * step, to[a]);
      }
      return;
    }
    if (by_words && has_words(first, times * step)) {
      const int before = columns_before();
      const In* const from = x + own - before;
#pragma unroll
      for (int a = 0; a < times; ++a) {
        load_words(from + a * step, before, to[a]);
      }
      return;
    }
#pragma unroll
    for (int a = 0; a < times; ++a) {
      load(own + a * step, to[a]);
    }
  }
  /// Block number `a` of it.
  template <int step>
  __device__ void load_one(std::int64_t first, int a, column_block<In>& to) const {
    load(first + a * step + std::int64_t{threadIdx.x} * block_columns, to);
  }
  [[nodiscard]] __device__ arithmetic_t<In> element(std::int64_t column) const {
    return widen(x[column]);
  }

 private:
  /// Columns between the word that the row begins in and the row.
  [[nodiscard]] __device__ int columns_before() const {
    return sizeof(In) == 2 ? static_cast<int>(reinterpret_cast<std::uintptr_t>(x) % 4 / 2) : 0;
  }
  /// Whether load_words reads nothing but the row for `count` columns.
  [[nodiscard]] __device__ bool has_words(std::int64_t first, int count) const {
    constexpr int behind = sizeof(In) == 2 ? 2 : 0;
    return first >= columns_before() && first + count + behind <= cols;
  }
  /// By words, wherever the row begins, the first of which is at `from`: of elements of 16 bits
  /// they are shifted, if there is a column `before` the first.
  __device__ static void load_words(const In* from, int before, column_block<In>& to) {
    if constexpr (sizeof(In) == 2) {
      constexpr int count = block_columns / 2;
      std::uint32_t words[count + 1];
#pragma unroll
      for (int w = 0; w <= count; ++w) {
        words[w] = reinterpret_cast<const std::uint32_t*>(from)[w];
      }
#pragma unroll
      for (int w = 0; w < count; ++w) {
        to.vectors[0].words[w] = static_cast<std::uint32_t>(
            (std::uint64_t{words[w + 1]} << 32 | words[w]) >> (16 * before));
      }
    } else {
      constexpr int width = column_block<In>::width;
#pragma unroll
      for (int i = 0; i < block_columns; ++i) {
        set_element<In>(to.vectors[i / width], i % width, from[i]);
      }
    }
  }
  __device__ static void load_vectors(const In* from, column_block<In>& to) {
#pragma unroll
    for (int v = 0; v < block_columns / column_block<In>::width; ++v) {
      to.vectors[v] = load_vector<true>(reinterpret_cast<const block16*>(from) + v);
    }
  }
};

/// The same of a row of which elements may be removed; these are -infinity.
template <class In>
struct masked_reader {
  row_reader<In> row;
  kept_columns kept;
  std::int64_t cols;

  __device__ static masked_reader of(const row_reader<In>& row, const kept_columns& kept) {
    return {row, kept, row.cols};
  }
  /// What is removed whole is not read.
  template <int step, int times>
  __device__ void load(std::int64_t first, column_block<In> (&to)[times]) const {
    const std::int64_t own = first + std::int64_t{threadIdx.x} * block_columns;
    std::uint32_t bits[times];
    find<step>(own, bits);
#pragma unroll
    for (int a = 0; a < times; ++a) {
#pragma unroll
      for (block16& vector : to[a].vectors) {
        vector = no_elements<In>();
      }
      if (bits[a] != 0) {
        row.load(own + a * step, to[a]);
      }
    }
#pragma unroll
    for (int a = 0; a < times; ++a) {
      to[a].keep(bits[a]);
    }
  }
  [[nodiscard]] __device__ float element(std::int64_t column) const {
    std::uint32_t bits[1];
    find<0>(column / block_columns * block_columns, bits);
    return (bits[0] >> column % block_columns & 1U) != 0 ? row.element(column) : -infinity<float>;
  }

 private:
  template <int step, int times>
  __device__ void find(std::int64_t first, std::uint32_t (&bits)[times]) const {
    static_assert(block_columns == 8);
    const auto number = [&](int a) { return static_cast<int>((first + a * step) / block_columns); };
    kept.template find<block_columns>(bits, number, [&](int a) { return first + a * step < cols; });
#pragma unroll
    for (int a = 0; a < times; ++a) {
      bits[a] &= kept.template inside<block_columns>(number(a));
    }
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
