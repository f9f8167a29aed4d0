// SPDX-License-Identifier: Apache-2.0
/// \file
/// What blocks of attention_by_groups do, one after the other: rows and the keys that some of them
/// have. One warp finds that out for its block, while the others are at what came before.
#pragma once

#include "attention_keys.hpp"
#include "claim.hpp"
#include "hopper.hpp"

#include <gpu/attention/block.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

struct group_unit {
  attention_block block;
  key_range chunk;
  key_range keys;  ///< that some row has, from a tile's begin on
  bool exists;     ///< else all is done
};

/// Those of the units that some warp of the block is at, or will be next.
struct group_units {
  /// Rows are written when what comes next has begun, and what comes after that can be found.
  static constexpr int slots = 3;

  group_unit units[slots];
  transfer_barrier found[slots];
  transfer_barrier left[slots];

  /// By one thread.
  __device__ void initialise(int warps) {
#pragma unroll
    for (int i = 0; i < slots; ++i) {
      found[i].initialise(1);
      left[i].initialise(warps);
    }
  }
  [[nodiscard]] __device__ const group_unit& wait(const ring_position& at) {
    found[at.slot].wait(at.phase);
    return units[at.slot];
  }
  /// By each warp, when it is done with a unit.
  __device__ void leave(const ring_position& at) {
    synchronize_warp();
    if (threadIdx.x % 32 == 0) {
      left[at.slot].arrive();
    }
  }
};

/// The warp that finds units: the block's own first, then what is claimed, or every gridDim.x-th
/// where nothing can be.
template <class Shape>
class unit_finder {
 public:
  __device__ unit_finder(const core::attention_problem& p, const attention_parts<float>& parts,
                         unsigned* claimed)
      : claimed_(claimed), next_(blockIdx.x), all_(static_cast<unsigned>(parts.units(p))) {}

  /// By all lanes of the warp.
  __device__ void find(const core::attention_problem& p, const attention_parts<float>& parts,
                       const attention_way& way, group_units& units) {
    if (has_found_) {
      next_ = following();
    }
    has_found_ = true;
    units.left[at_.slot].wait(at_.phase ^ 1);
    group_unit& unit = units.units[at_.slot];
    const bool is_first = threadIdx.x % 32 == 0;
    bool exists = false;
#pragma unroll 1
    while (next_ < all_) {
      synchronize_warp();
      if (is_first) {
        unit.block = attention_block::of(p, parts, Shape::rows, static_cast<int>(next_));
      }
      synchronize_warp();
      exists = unit.block.first_row < unit.block.all_rows;
      if (exists) {
        break;
      }
      next_ = following();  // a packed sequence leaves a block
    }
    if (exists) {
      const auto chunk = key_range::of(unit.block, parts);
      const auto keys = keys_of(p, way, unit.block, chunk);
      if (is_first) {
        unit.chunk = chunk;
        unit.keys = keys;
      }
    }
    if (is_first) {
      unit.exists = exists;
      units.found[at_.slot].arrive();
    }
    at_.advance(group_units::slots);
  }

 private:
  [[nodiscard]] __device__ unsigned following() const {
    if (claimed_ == nullptr) {
      return next_ + gridDim.x;
    }
    const unsigned number = threadIdx.x % 32 == 0 ? claim_next(*claimed_, all_ - gridDim.x) : 0U;
    return gridDim.x + shuffle(number, 0);
  }
  __device__ static key_range keys_of(const core::attention_problem& p, const attention_way& way,
                                      const attention_block& block, const key_range& chunk) {
    const auto within_chunk = [&](std::int64_t row) {
      return key_range::of(block.row<float>(p, row), chunk.first, chunk.end);
    };
    if (way.unmasked) {  // each row has what the others have
      return within_chunk(block.first_row);
    }
    return keys_of_some<Shape::rows, Shape::keys>(
        chunk, [&](int row) { return within_chunk(block.row_at(row)); });
  }

  unsigned* claimed_;
  unsigned next_;
  unsigned all_;
  bool has_found_ = false;
  ring_position at_;
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
