// SPDX-License-Identifier: Apache-2.0
/// \file
/// A range of a row as aligned vectors of 16 bytes, and their way from memory.
///
/// The first and the last vector may lie partly outside the range: they are read whole where the
/// matrix has all of them, and masked. All others are read whole, whatever the base, the stride and
/// the number of columns. Elements outside the range are what contributes nothing: -infinity, or 0.
#pragma once

#include <gpu/row/vector_elements.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Memory that may be read: from the first element of a matrix to its last.
template <class In>
struct readable_memory {
  const In* begin;
  const In* end;

  readable_memory(const In* data, std::int64_t rows, std::int64_t cols, std::int64_t stride)
      : begin(data), end(rows > 0 ? data + (rows - 1) * stride + cols : data) {}
};

/// What is written is cut at multiples of this: the L2 cache's sectors.
inline constexpr int sector_bytes = 32;
/// As a range's alignment: its row is known to begin where one should, so nothing is computed of
/// its address.
inline constexpr int known_to_be_aligned = 1;

/// A row, or a range of one, as aligned vectors: its elements are `base`[head] to `base`[end - 1].
/// The first vector may lie before the row, if `alignment` is larger than a vector.
template <class In>
struct vector_range {
  static constexpr int width = vector_width<In>;
  static constexpr int width_bits = width == 8 ? 3 : width == 4 ? 2 : 1;

  const In* base;  ///< aligned to `alignment` bytes
  int head;
  int end;
  readable_memory<In> memory;

  /// A whole row that lanes or a block hold.
  __device__ vector_range(const In* row, int cols, const readable_memory<In>& memory,
                          int alignment = vector_bytes)
      : memory(memory) {
    const auto address = reinterpret_cast<std::uintptr_t>(row);
    const auto beyond = static_cast<std::uintptr_t>(alignment - 1);
    base = reinterpret_cast<const In*>(address & ~beyond);
    head = static_cast<int>(address & beyond) / static_cast<int>(sizeof(In));
    end = head + cols;
  }
  /// `vectors` vectors from number first_vector on.
  __device__ vector_range(const In* row, std::int64_t cols, const readable_memory<In>& memory,
                          std::int64_t first_vector, int vectors, int alignment = vector_bytes)
      : vector_range(row, 0, memory, alignment) {
    const std::int64_t rest = head + cols - first_vector * width;
    end = rest < 0                               ? 0
          : rest < std::int64_t{vectors} * width ? static_cast<int>(rest)
                                                 : vectors * width;
    move_to(first_vector);
  }
  /// The part of `whole`, a range of this row from vector whole_first on, that has `vectors`
  /// vectors from number `first` of it on. The row itself takes no registers, as `whole` would.
  __device__ vector_range(const In* row, const vector_range& whole, std::int64_t whole_first,
                          int first, int vectors)
      : vector_range(row, 0, whole.memory) {
    const int rest = whole.end - first * width;
    end = rest < vectors * width ? rest : vectors * width;
    move_to(whole_first + first);
  }

  /// Vectors, and those that end inside the range.
  [[nodiscard]] __device__ int size() const { return (end + width - 1) >> width_bits; }
  [[nodiscard]] __device__ int end_whole() const { return end >> width_bits; }
  /// Elements of the last vector, if they are less than a whole one's.
  [[nodiscard]] __device__ int tail() const { return end & (width - 1); }
  /// Whether all elements of a vector belong to the matrix, if not to the range.
  [[nodiscard]] __device__ bool readable(int v) const {
    return base + v * width >= memory.begin && base + (v + 1) * width <= memory.end;
  }
  /// The same of all vectors.
  [[nodiscard]] __device__ bool readable() const {
    return base >= memory.begin && base + size() * width <= memory.end;
  }
  [[nodiscard]] __device__ bool has(int element) const { return element >= head && element < end; }

 private:
  __device__ void move_to(std::int64_t first_vector) {
    head = first_vector == 0 ? head : 0;
    base += first_vector * width;
  }
};

/// A word's bits from number `first` on; none from 32 on.
__device__ inline std::uint32_t bits_from(int first) {
  return shift_left(~std::uint32_t{0}, first > 0 ? first : 0);
}

/// Makes those elements of vector v that lie before the range what counts as outside.
template <outside beyond = outside::minus_infinity, class In>
__device__ inline void mask_head(block16& loaded, const vector_range<In>& range, int v) {
  constexpr block16 none = outside_elements<In, beyond>();
  const int from = (range.head - v * vector_width<In>)*8 * static_cast<int>(sizeof(In));
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const std::uint32_t inside = bits_from(from - 32 * w);
    loaded.words[w] = (loaded.words[w] & inside) | (none.words[w] & ~inside);
  }
}

/// The same of those behind it.
template <outside beyond = outside::minus_infinity, class In>
__device__ inline void mask_tail(block16& loaded, const vector_range<In>& range, int v) {
  constexpr block16 none = outside_elements<In, beyond>();
  const int until = (range.end - v * vector_width<In>)*8 * static_cast<int>(sizeof(In));
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const std::uint32_t outside = bits_from(until - 32 * w);
    loaded.words[w] = (loaded.words[w] & ~outside) | (none.words[w] & outside);
  }
}

/// Vector v element by element.
template <outside beyond = outside::minus_infinity, class In>
__device__ inline block16 load_elements(const vector_range<In>& from, int v) {
  block16 result = outside_elements<In, beyond>();
#pragma unroll
  for (int i = 0; i < vector_width<In>; ++i) {
    const int at = v * vector_width<In> + i;
    if (from.has(at)) {
      set_element(result, i, from.base[at]);
    }
  }
  return result;
}

/// Vector v, its elements outside the range -infinity.
template <class In>
__device__ inline block16 load_vector(const vector_range<In>& from, int v) {
  if (!from.readable(v)) {
    return load_elements(from, v);
  }
  block16 loaded =
      load_vector<true>(reinterpret_cast<const block16*>(from.base + v * vector_width<In>));
  mask_head(loaded, from, v);
  mask_tail(loaded, from, v);
  return loaded;
}

/// Starts the copy of the vectors of a range to shared memory, by all threads of a block, each
/// those that a tile of it has; see wait_for_copies.
template <class In>
__device__ inline void copy_ahead(const vector_range<In>& from, block16* copy) {
#pragma unroll 1
  for (int v = static_cast<int>(threadIdx.x); v < from.size(); v += static_cast<int>(blockDim.x)) {
    if (from.readable(v)) {
      copy_ahead(copy + v, reinterpret_cast<const block16*>(from.base) + v);
    } else {
      copy[v] = load_elements(from, v);
    }
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
