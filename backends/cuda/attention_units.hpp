// SPDX-License-Identifier: Apache-2.0
/// \file
/// What attention_few's blocks have to do, in chunks of keys, and in which order.
#pragma once

#include <gpu/attention/block.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The chunks there are, in the order of their work. Where sequences have lengths of their own only
/// chunks that have keys count, if sequences are not too many to count.
class few_units {
 public:
  static constexpr int most_counted = 512;
  /// The first chunk of each block of rows of a key head, and of the next head.
  using starts_memory = int[most_counted + 1];

  /// Of blocks of `rows` rows. By all threads of the block; a barrier.
  __device__ static few_units of(const core::attention_problem& p,
                                 const attention_parts<float>& parts, int rows,
                                 starts_memory& starts) {
    few_units u{};
    u.heads_ = static_cast<std::uint32_t>(p.k.heads);
    u.blocks_ = static_cast<std::uint32_t>(parts.blocks);
    u.chunks_ = static_cast<std::uint32_t>(parts.chunks);
    u.places_ = static_cast<int>(p.q.batches) * static_cast<int>(parts.blocks);
    const bool differ = p.options.key_lengths.data != nullptr || p.is_packed();
    if (!differ || u.places_ > most_counted) {
      u.count_ = u.places_ * static_cast<int>(u.heads_ * u.chunks_);
      return u;
    }
    const auto thread = static_cast<int>(threadIdx.x);
    for (int i = thread; i < u.places_; i += static_cast<int>(blockDim.x)) {
      const auto block =
          attention_block::of(p, parts, rows, u.block_of(static_cast<std::uint32_t>(i), 0, 0));
      starts[i + 1] = block.first_row < block.all_rows ? parts.chunks_of(p, block.in) : 0;
    }
    __syncthreads();
    if (thread < 32) {
      int before = 0;
      for (int i = 0; i < u.places_; i += 32) {
        int sum = i + thread < u.places_ ? starts[i + thread + 1] : 0;
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
          const int other = __shfl_up_sync(0xffffffffU, sum, distance);
          sum += thread >= distance ? other : 0;
        }
        sum += before;
        if (i + thread < u.places_) {
          starts[i + thread + 1] = sum;
        }
        before = __shfl_sync(0xffffffffU, sum, 31);
      }
      starts[0] = 0;
    }
    __syncthreads();
    u.starts_ = starts;
    u.count_ = starts[u.places_] * static_cast<int>(u.heads_);
    return u;
  }

  [[nodiscard]] __device__ int count() const { return count_; }

  /// The number of a unit's block for attention_block::of.
  [[nodiscard]] __device__ int block_of(int unit) const {
    if (starts_ == nullptr) {
      return unit;
    }
    const auto of_head = static_cast<int>(static_cast<std::uint32_t>(unit) / heads_);
    int low = 0;
    int high = places_;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (starts_[middle] <= of_head ? low : high) = middle;
    }
    const int first = starts_[low];
    const auto chunks = static_cast<std::uint32_t>(starts_[low + 1] - first);
    const auto own = static_cast<std::uint32_t>(unit) - static_cast<std::uint32_t>(first) * heads_;
    return block_of(static_cast<std::uint32_t>(low), own / chunks, own % chunks);
  }

 private:
  [[nodiscard]] __device__ int block_of(std::uint32_t place, std::uint32_t head,
                                        std::uint32_t chunk) const {
    const std::uint32_t batch = place / blocks_;
    return static_cast<int>(((batch * heads_ + head) * blocks_ + place % blocks_) * chunks_ +
                            chunk);
  }

  std::uint32_t heads_;
  std::uint32_t blocks_;
  std::uint32_t chunks_;
  int places_;
  int count_;
  const int* starts_;  ///< or null: all are alike
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
