// SPDX-License-Identifier: Apache-2.0
/// \file
/// What attention_few's blocks have to do, in chunks of keys, and in which order.
#pragma once

#include "attention_keys.hpp"

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

/// A chunk of keys, as one of a block's warps has it.
struct few_unit {
  int block;           ///< for attention_block::of
  int rows;            ///< that exist; 0: nothing is to be done
  std::int64_t place;  ///< of the first row's state
  int first;           ///< the warp's
  int end;
  int all_first;  ///< keys that all rows have
  int all_end;
};

/// What a warp's lanes tell each other: of the unit whose products they make, and of the next one,
/// whose keys they may be reading.
struct few_warp_memory {
  few_unit units[2];
  key_range ranges[2][16];

  /// By all lanes.
  template <class Shape>
  __device__ void set(int at, const core::attention_problem& p, const attention_parts<float>& parts,
                      const attention_way& way, const attention_block& block, int number) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const std::int64_t live = block.in.live_keys(p);
    const int length = chunk_length::of(live);
    const auto past = static_cast<int>(live);
    const std::int64_t from = block.chunk * length;
    const int begin = from < past ? static_cast<int>(from) : past;
    const int end = past - begin < length ? past : begin + length;
    const std::int64_t left = block.all_rows - block.first_row;
    few_unit unit{number,
                  left < Shape::rows ? static_cast<int>(left) : Shape::rows,
                  block.place(p, block.first_row),
                  0,
                  0,
                  begin,
                  end};
    key_range own{begin, end};
    key_range some = own;
    if (unit.rows <= 0 || begin == end) {
      unit.rows = 0;  // what a packed sequence leaves, or a sequence has not
      some.end = begin;
    } else if (!way.unmasked) {
      own = key_range::of(block.row<float>(p, block.row_at(lane % Shape::rows)), begin, end);
      const auto of_rows = keys_of_warp::of(own, {begin, end});
      some = of_rows.some;
      unit.all_first = of_rows.all.first;
      unit.all_end = of_rows.all.end;
    }
    if (some.first < some.end) {
      // The warps read in turn, so that what a block reads at a time is together.
      unit.first = some.first / Shape::turn_keys * Shape::turn_keys + warp * Shape::keys;
      unit.end = some.end;
    }
    synchronize_warp();
    if (lane < Shape::rows) {
      ranges[at][lane] = own;
    }
    if (lane == 0) {
      units[at] = unit;
    }
    synchronize_warp();
  }
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
