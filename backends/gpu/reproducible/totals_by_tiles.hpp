// SPDX-License-Identifier: Apache-2.0
/// \file
/// Totals in one launch of rows that registers hold: their lanes, or a few warps for each.
#pragma once

#include <gpu/plan/constants.hpp>
#include <gpu/reproducible/tiled_rows.hpp>
#include <gpu/reproducible/totals.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// How a block's threads share rows. What is done once for each row, the logarithm first of all, is
/// done by neighbouring lanes for all of the block's rows at once.
struct tile_groups {
  int lane_shift = 0;  ///< lanes of a group as a power of 2
  int columns = 0;     ///< of a group, at most
  int groups = 0;      ///< of a row: 1, or some warps
  int rows = 0;        ///< of a block; 0: rows are too long
  int end_shift = 0;   ///< lanes that combine a row's groups, as a power of 2

  static constexpr int vectors = 8;      ///< of a thread
  static constexpr int most_rows = 128;  ///< of a block
  /// Threads of a block, at most, of which there are two on a multiprocessor.
  static constexpr int most_threads(bool plain) { return plain ? 512 : 384; }

  [[nodiscard]] int threads() const { return (rows * groups) << lane_shift; }

  /// For so many rows: where they are few, blocks have less of them.
  static tile_groups of(const row_shape& shape, std::int64_t count, bool plain,
                        const device_limits& device) {
    tile_groups by = of(shape, plain, device.lanes);
    while (by.rows % 2 == 0 && by.threads() > device.lanes &&
           count <= by.rows / 2 * device.multiprocessors) {
      by.rows /= 2;
    }
    return by;
  }

 private:
  /// As few lanes as have room: what they do once is as much as a few vectors. Two at least, which
  /// read a sector.
  static tile_groups of(const row_shape& shape, bool plain, int lanes) {
    constexpr int block = 256;
    const auto shift_of = [](std::int64_t n) {
      return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n - 1)));
    };
    const std::int64_t row = vectors_of(shape);
    if (row <= std::int64_t{vectors} * lanes) {
      const int least = row > 1 || shape.element_bytes == 4 ? 1 : 0;
      const int shift =
          std::max(shift_of(std::max<std::int64_t>(divide_up(row, vectors), 1)), least);
      return {shift, static_cast<int>(shape.cols), 1, std::min(block >> shift, most_rows), 0};
    }
    const int of_warp = vectors * lanes - (plain ? 0 : tiled_rows<float, false>::shared_vectors);
    const std::int64_t warps = divide_up(row, of_warp);
    if (warps * lanes > most_threads(plain)) {
      return {};
    }
    const auto groups = static_cast<int>(warps);
    const int rows = std::max(block / (groups * lanes), 1);
    return {shift_of(lanes), of_warp * (vector_bytes / shape.element_bytes), groups, rows,
            shift_of(rows > 1 ? groups : lanes)};
  }
};

/// A row's sum by a warp, a column for each lane: little code, for rows that are far from 0.
template <int lanes, class In>
__device__ inline core::reproducible::exact_sum<float> sum_plainly(
    const row_reader<In>& row, const core::reproducible::frame<float>& exponents, float largest) {
  namespace reproducible = core::reproducible;
  const std::int32_t anchor = reproducible::anchor_of(reproducible::term_of(exponents(largest)).n);
  reproducible::exact_sum<float> sum;
#pragma unroll 1
  for (std::int64_t first = 0; first < row.cols; first += lanes) {
    const std::int64_t column = first + threadIdx.x % lanes;
    const reproducible::exponent<float> e =
        exponents(column < row.cols ? row.element(column) : -infinity<float>);
    float packet = e.z > reproducible::row_total<float>::lowest()
                       ? reproducible::held(reproducible::term_of(e), anchor)
                       : 0.0F;
    // As sum_of_packet has its additions.
    for (int mask = reproducible::packet_columns / 2; mask > 0; mask /= 2) {
      packet += shuffle_xor(packet, mask);
    }
    if (column % reproducible::packet_columns == 0 && packet > 0) {
      sum.add(packet, anchor);
    }
  }
  return sum_over_warp<lanes>(sum);
}

/// In shared memory: neighbours begin in different banks.
struct apart_state {
  total_state state;
  std::uint64_t apart;
};
static_assert(sizeof(apart_state) / sizeof(std::uint64_t) % 2 == 1);

template <int lanes, class In, bool plain>
__global__ void __launch_bounds__(tile_groups::most_threads(plain), least_resident(2))
    totals_by_tiles(const tiled_rows<In, plain> from, const tile_groups by,
                    const total_results<float> to) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  namespace reproducible = core::reproducible;
  __shared__ shared_array<apart_state, tile_groups::most_rows> states;
  let_next_begin();
  const std::int64_t first_row = std::int64_t{blockIdx.x} * by.rows;
  const std::int64_t rest = from.source.rows - first_row;
  const int rows = rest < by.rows ? static_cast<int>(rest) : by.rows;
  const auto thread = static_cast<int>(threadIdx.x);
  const int group = thread >> by.lane_shift;
  {
    const int members = 1 << by.lane_shift;
    const int row = by.groups == 1 ? group : by.rows == 1 ? 0 : group / by.groups;
    auto own = from.template hold<tile_groups::vectors>(
        first_row + (row < rows ? row : 0), 0, row < rows ? static_cast<int>(from.source.cols) : 0,
        group - row * by.groups, by.columns, members);
    if (ballot(!own.is_inside()) == 0) {
      own.load_inside();
    } else {
      own.load();
    }
    const total_state state = own.template total<lanes>(from.scale, members);
    if ((thread & (members - 1)) == 0) {
      states[group].state = state;
    }
  }
  __syncthreads();
  const int enders = 1 << by.end_shift;
  const int ended = thread >> by.end_shift;
  if ((thread - thread % lanes) >> by.end_shift >= rows) {
    return;
  }
  const int part = thread & (enders - 1);
  const bool ends = ended < rows && part == 0;
  total_state& whole = states[ended < rows ? ended * by.groups : 0].state;
  if (by.groups > 1) {
    const total_state combined = combine_over_lanes(enders, total_monoid(), [&](const auto& add) {
      if (ended < rows && part < by.groups) {
        add(states[ended * by.groups + part].state);
      }
    });
    if (ends) {
      whole = combined;
    }
  }
  const float own_largest = ends ? whole.largest : -infinity<float>;
  const bool is_far = reproducible::row_total<float>::kind_of(from.scale, own_largest) ==
                          reproducible::row_kind::ordinary &&
                      reproducible::frame<float>::of(from.scale, own_largest).is_far;
  for (lane_mask left = ballot(is_far); left != 0; left &= left - 1) {
    const int of = count((left & (~left + 1)) - 1);
    const float largest = shuffle(own_largest, of);
    const auto reader =
        row_reader<In>::of(from.source.row(first_row + shuffle(ended, of)), from.source.cols);
    const auto sum = sum_plainly<lanes>(reader, to.frame_of(from.scale, largest), largest);
    if (thread % lanes == of) {
      whole.sum = sum;
    }
  }
  if (ends) {
    to.template write<In>(first_row + ended, from.scale, whole);
  }
}

template <int lanes, class In>
void launch_tiles(stream_handle stream, const row_source<In>& source, float scale, bool plain,
                  const tile_groups& by, const total_results<float>& to) {
  const auto launch = [&](auto is_plain) {
    launch_grid(stream, totals_by_tiles<lanes, In, is_plain()>, divide_up(source.rows, by.rows),
                by.threads(), tiled_rows<In, is_plain()>{source, scale}, by, to);
  };
  plain ? launch(std::true_type()) : launch(std::false_type());
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
