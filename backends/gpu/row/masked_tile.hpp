// SPDX-License-Identifier: Apache-2.0
/// \file
/// A tile whose elements may be removed: it is read as it is, but for vectors that are removed
/// whole, and removed elements become -infinity in its registers.
#pragma once

#include <gpu/row/removals.hpp>
#include <gpu/row/tile.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Of a plain range. load() leaves garbage of removed elements until remove().
template <class In, int V>
class masked_tile : public tile<In, V, true> {
 public:
  static constexpr int width = vector_width<In>;

  __device__ masked_tile(const vector_range<In>& range, int first, int step,
                         const kept_columns& columns)
      : tile<In, V, true>(range, first, step), columns_(columns) {}

  template <bool once = false>
  __device__ void load() {
    find();
    const auto* from = reinterpret_cast<const block16*>(this->range_.base) + this->first_;
    forget_origin(from);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      this->vectors_[j] = no_elements<In>();
      if (bits(j) != 0) {
        this->vectors_[j] = gpu::load_vector<once>(from + static_cast<unsigned>(j * this->step_));
      }
    }
  }
  template <bool once = false>
  __device__ void load_long() {
    load<once>();
  }
  /// Takes the vectors from a copy in shared memory.
  __device__ void load(const block16* copy) {
    find();
    tile<In, V, true>::load(copy);
  }
  /// Puts them back.
  __device__ void put_back(block16* copy) const {
    const int size = this->range_.size();
#pragma unroll
    for (int j = 0; j < V; ++j) {
      if (this->number(j) < size) {
        copy[this->number(j)] = this->vectors_[j];
      }
    }
  }

  __device__ void remove() {
#pragma unroll
    for (int j = 0; j < V; ++j) {
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        std::uint32_t& word = this->vectors_[j].words[w];
        const std::uint32_t none = no_elements<In>().words[w];
        if constexpr (sizeof(In) == 4) {
          word = (kept_[j / each] >> (j % each * width + w) & 1U) != 0 ? word : none;
        } else {
          const std::uint32_t four = kept_[j / each] >> (j % each * width + w / 2 * 4) & 15U;
          const std::uint32_t kept = pair_mask(four, w % 2);
          word = (word & kept) | (none & ~kept);
        }
      }
    }
  }

  /// Whether at least half of the vectors have something left.
  [[nodiscard]] __device__ bool is_mostly_kept() const {
    constexpr std::uint32_t lowest = width == 4 ? 0x11111111U : 0x01010101U;
    int count = 0;
#pragma unroll
    for (int i = 0; i < words; ++i) {
      std::uint32_t some = kept_[i] | kept_[i] >> 1;
      some |= some >> 2;
      count += count_bits((width == 4 ? some : some | some >> 4) & lowest);
    }
    return 2 * count >= V;
  }

 private:
  static constexpr int each = 32 / width;  ///< vectors whose bits a word has
  static constexpr int words = (V + each - 1) / each;

  [[nodiscard]] __device__ std::uint32_t bits(int j) const {
    return kept_[j / each] & ((1U << width) - 1) << (j % each * width);
  }

  __device__ void find() {
    const int size = this->range_.size();
    std::uint32_t own[V];
    columns_.template find<width>(
        own, [&](int j) { return this->number(j); }, [&](int j) { return this->number(j) < size; });
    if (columns_.first > 0 || columns_.last < size * width) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        own[j] &= columns_.template inside<width>(this->number(j));
      }
    }
#pragma unroll
    for (int i = 0; i < words; ++i) {
      kept_[i] = 0;
    }
#pragma unroll
    for (int j = 0; j < V; ++j) {
      kept_[j / each] |= own[j] << (j % each * width);
    }
    this->next_pass();
  }

  kept_columns columns_;
  std::uint32_t kept_[words];  ///< a bit for each element
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
