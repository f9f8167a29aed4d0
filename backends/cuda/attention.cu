// SPDX-License-Identifier: Apache-2.0
#include "attention_few.hpp"
#include "attention_run.hpp"
#include "attention_tiles.hpp"

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class In, class Shape>
void run_few(executor& on, const core::attention_problem& p) {
  // Results are made of states, also of a single one, whose code has few registers to spare.
  const auto parts = parts_of<float>(
      on, p, std::max<std::int64_t>(2, chunk_length::most_chunks(p.most_keys())), 0, Shape::rows);
  const std::int64_t units = p.q.batches * p.k.heads * parts.blocks * parts.chunks;
  const std::int64_t at_once = std::int64_t{on.properties.multiprocessors} * Shape::resident;
  launch_shared(on.stream, attention_few<In, Shape>, std::min(units, at_once), Shape::threads,
                Shape::shared_bytes, p, parts, attention_way::of(p));
  combine_chunks<In>(on, p, parts);
}
/// Of more than 128 dimensions 16 rows would not have the registers; they are two blocks of 8.
template <class In>
void run_few_of(executor& on, const core::attention_problem& p, std::int64_t rows,
                std::int64_t dims) {
  if (dims > 128) {
    run_few<In, few_shape<256, 8, 2, 3, 2>>(on, p);
  } else if (dims > 64) {
    rows <= 8 ? run_few<In, few_shape<128, 8, 4, 3, 2>>(on, p)
              : run_few<In, few_shape<128, 16, 4, 2, 2>>(on, p);
  } else {
    rows <= 8 ? run_few<In, few_shape<64, 8, 4, 4, 2>>(on, p)
              : run_few<In, few_shape<64, 16, 4, 4, 2>>(on, p);
  }
}
template <class In, class Shape>
void run_tiles(executor& on, const core::attention_problem& p, std::int64_t chunk_keys) {
  const auto parts = parts_of_keys<float>(on, p, chunk_keys, Shape::rows);
  launch_parts<Shape>(on, p, parts, attention_tiles<In, Shape>);
  combine_chunks<In>(on, p, parts);
}

/// Other kernels have 16-bit types where this has not: of more than 256 dimensions, as a rule.
constexpr bool has_matrix_unit = true;

/// False, and nothing is launched, if the problem is not for the matrix unit. By a key head's rows
/// and the keys, whatever the batch.
template <class In>
bool run_by_matrix_unit(executor& on, const core::attention_problem& p) {
  const std::int64_t dims = largest_dim(p);
  if (dims > 256 || p.k.tokens > std::numeric_limits<int>::max() / 2) {
    return false;
  }
  const std::int64_t rows = p.group * p.most_queries();
  constexpr std::int64_t few = 16;
  constexpr std::int64_t some = 256;
  if (rows <= few) {
    run_few_of<In>(on, p, rows, dims);
    return true;
  }
  const std::int64_t chunk_keys = rows <= some ? 1024 : 0;
#if SOFTFOLD_CUDA_HAS_GROUPS
  if (goes_by_groups<In>(on, p)) {
    const auto parts = parts_of_keys<float>(on, p, chunk_keys, rows_of_groups);
    launch_by_groups<In>(on, p, parts);
    combine_chunks<In>(on, p, parts);
    return true;
  }
#endif
  dims <= 64    ? run_tiles<In, tile_shape<64, 4, 2, 2>>(on, p, chunk_keys)
  : dims <= 128 ? run_tiles<In, tile_shape<128, 4, 2, 2>>(on, p, chunk_keys)
                : run_tiles<In, tile_shape<256, 4, 1, 2>>(on, p, chunk_keys);
  return true;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

#include <gpu/attention.inl>
