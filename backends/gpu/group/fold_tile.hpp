// SPDX-License-Identifier: Apache-2.0
/// \file
/// The softmax states of tiles over the lanes that hold them.
#pragma once

#include <gpu/group/combine.hpp>
#include <gpu/row/tile.hpp>
#include <gpu/state/softmax_state.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The state of the tiles of `count` lanes, whose own elements' maximum is `largest`; if `keep`,
/// the tiles keep their exponentials, of precision p. `skips`: see tile::sum.
template <int lanes, precision p, bool keep, int skips = 0, class In, int V, bool plain>
__device__ inline softmax_state<arithmetic_t<In>> fold_tile(tile<In, V, plain>& own,
                                                            arithmetic_t<In> scale, int count,
                                                            arithmetic_t<In> largest) {
  const auto max = max_over_lanes(largest, count);
  own.next_pass();
  const auto f = frame<arithmetic_t<In>>::of(max, scale);
  constexpr precision used = keep ? p : precision::fast;
  const auto sum = sum_over_lanes(own.template sum<used, keep, skips>(f), count);
  own.next_pass();
  return {max, sum};
}

/// The same of a part of a long row, of which many warps have less than their lanes could hold.
template <int lanes, precision p, bool keep, class In, int V, bool plain>
__device__ inline softmax_state<arithmetic_t<In>> fold_part(tile<In, V, plain>& own,
                                                            arithmetic_t<In> scale) {
  return fold_tile<lanes, p, keep, 1>(own, scale, lanes, own.max());
}

template <int lanes, precision p, bool keep, class In, int V, bool plain>
__device__ inline softmax_state<arithmetic_t<In>> fold_tile(tile<In, V, plain>& own,
                                                            arithmetic_t<In> scale, int count) {
  return fold_tile<lanes, p, keep>(own, scale, count, own.max());
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
