// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which keys a block has, for the kernels of attention by the matrix unit, and what they are told
/// of their problem.
#pragma once

#include <gpu/attention/block.hpp>

#include <core/attention.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// What a launch knows of its problem.
struct attention_way {
  bool edited;         ///< scores are more than a positive scale times the products
  bool in_pieces;      ///< tokens begin at multiples of 16 bytes
  bool writes_pieces;  ///< so do the output's, which is of the same type, and end there
  bool unmasked;       ///< core::attention_problem::is_unmasked
  float unit;          ///< what a row's maximum is multiplied with to be that of its scores
  float unit_2;        ///< times log2 e

  static attention_way of(const core::attention_problem& p);
};

/// Keys [first, end) of a sequence.
struct key_range {
  int first;
  int end;

  /// The keys of a row within [begin, past).
  template <class A>
  __device__ static key_range of(const core::attention_row<A>& row, int begin, int past) {
    const auto within = [&](std::int64_t key) {
      return key < begin ? begin : key > past ? past : static_cast<int>(key);
    };
    return {within(row.first), within(row.end)};
  }
  /// The keys of a block's chunk.
  template <class A>
  __device__ static key_range of(const attention_block& block, const attention_parts<A>& parts) {
    const auto begin = static_cast<int>(block.chunk * parts.chunk_keys);
    return {begin, block.in.keys - begin < parts.chunk_keys
                       ? static_cast<int>(block.in.keys > begin ? block.in.keys : begin)
                       : begin + static_cast<int>(parts.chunk_keys)};
  }
};

/// Keys that some of a warp's rows have, and those that all have.
struct keys_of_warp {
  key_range some;
  key_range all;

  /// By all lanes of the warp, `own` a row's within the chunk's; each row is some lane's.
  __device__ static keys_of_warp of(const key_range& own, const key_range& chunk) {
    const bool is_live = own.first < own.end;
    constexpr unsigned lanes = 0xffffffffU;
    return {{__reduce_min_sync(lanes, is_live ? own.first : chunk.end),
             __reduce_max_sync(lanes, is_live ? own.end : chunk.first)},
            {__reduce_max_sync(lanes, own.first), __reduce_min_sync(lanes, own.end)}};
  }
  /// Those of both.
  [[nodiscard]] __device__ keys_of_warp with(const keys_of_warp& other) const {
    const auto least = [](int a, int b) { return a < b ? a : b; };
    const auto most = [](int a, int b) { return a > b ? a : b; };
    return {{least(some.first, other.some.first), most(some.end, other.some.end)},
            {most(all.first, other.all.first), least(all.end, other.all.end)}};
  }
  /// Whether some rows have some of so many keys, and all rows all of them.
  [[nodiscard]] __device__ bool some_in(int begin, int keys) const {
    return begin < some.end && begin + keys > some.first;
  }
  [[nodiscard]] __device__ bool all_in(int begin, int keys) const {
    return begin >= all.first && begin + keys <= all.end;
  }
};

/// Keys that some of `rows` rows have, range_of(row) within those of the chunk; the first at a
/// tile's begin. By all lanes of a warp.
template <int rows, int tile_keys, class RangeOf>
__device__ inline key_range keys_of_some(const key_range& chunk, const RangeOf& range_of) {
  int first = chunk.end;
  int end = chunk.first;
#pragma unroll 1
  for (int r = static_cast<int>(threadIdx.x) % 32; r < rows; r += 32) {
    const key_range own = range_of(r);
    if (own.first < own.end) {
      first = own.first < first ? own.first : first;
      end = own.end > end ? own.end : end;
    }
  }
  first = __reduce_min_sync(0xffffffffU, first) / tile_keys * tile_keys;
  end = __reduce_max_sync(0xffffffffU, end);
  return {first < chunk.first ? chunk.first : first, end};
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
