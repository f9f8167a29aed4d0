// SPDX-License-Identifier: Apache-2.0
/// \file
/// attention of 16-bit elements by the matrix unit: which kernel.
#pragma once

#include "attention_few.hpp"
#include "attention_tiles.hpp"

#include <limits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

inline attention_way attention_way::of(const core::attention_problem& p) {
  const attention_options& o = p.options;
  constexpr double log2_e = 1.4426950408889634;
  // Products are compared before they are scaled.
  const bool edited = o.softcap != 0 || o.bias.data != nullptr || o.alibi_slopes.data != nullptr ||
                      !(p.scale >= 1e-30 && p.scale <= 1e30);
  const auto in_pieces = [](const const_tensor_ref& t) {
    return reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 && t.batch_stride % 8 == 0 &&
           t.head_stride % 8 == 0 && t.token_stride % 8 == 0;
  };
  const auto unit = edited ? 1.0F : static_cast<float>(p.scale);
  return {edited, in_pieces(p.q) && in_pieces(p.k) && in_pieces(p.v), unit,
          static_cast<float>(static_cast<double>(unit) * log2_e)};
}

template <class In, class Shape, class Kernel>
void run_by_matrix_unit(executor& on, const core::attention_problem& p, std::int64_t chunk_keys,
                        Kernel* kernel) {
  const auto parts = make_parts<float>(on, p, chunk_keys, Shape::rows);
  launch_shared(on.stream, kernel, p.q.batches * p.k.heads * parts.blocks * parts.chunks,
                Shape::threads, Shape::shared_bytes, p, parts, attention_way::of(p));
  combine_chunks<In>(on, p, parts);
}
template <class In, class Shape>
void run_few(executor& on, const core::attention_problem& p) {
  run_by_matrix_unit<In, Shape>(on, p, Shape::chunk_keys, attention_few<In, Shape>);
}
template <class In, class Shape>
void run_tiles(executor& on, const core::attention_problem& p, std::int64_t chunk_keys) {
  run_by_matrix_unit<In, Shape>(on, p, chunk_keys, attention_tiles<In, Shape>);
}

/// False, and nothing is launched, if the problem is not for the matrix unit.
template <class In>
bool run_by_matrix_unit(executor& on, const core::attention_problem& p) {
  const std::int64_t dims = p.q.dim > p.v.dim ? p.q.dim : p.v.dim;
  if (dims > 256 || p.k.tokens > std::numeric_limits<int>::max() / 2) {
    return false;
  }
  const std::int64_t rows = p.group() * p.most_queries();
  constexpr std::int64_t few = 16;
  if (rows <= few) {
    dims <= 64    ? run_few<In, few_shape<64, 4, 4, 3>>(on, p)
    : dims <= 128 ? run_few<In, few_shape<128, 4, 3, 2>>(on, p)
                  : run_few<In, few_shape<256, 2, 3, 2>>(on, p);
    return true;
  }
  constexpr std::int64_t some = 256;
  const std::int64_t chunk_keys = rows <= some ? 1024 : 0;
  dims <= 64    ? run_tiles<In, tile_shape<64, 4, 2, 3>>(on, p, chunk_keys)
  : dims <= 128 ? run_tiles<In, tile_shape<128, 4, 2, 2>>(on, p, chunk_keys)
                : run_tiles<In, tile_shape<256, 4, 1, 2>>(on, p, chunk_keys);
  return true;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
