// SPDX-License-Identifier: Apache-2.0
#include "attention_double.hpp"
#include "attention_exact.hpp"
#include "attention_few.hpp"
#include "attention_run.hpp"
#include "attention_split.hpp"
#include "attention_tiles.hpp"

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class In, class Shape>
void run_few(executor& on, const core::attention_problem& p) {
  // Results are made of states, also of a single one, whose code has few registers to spare.
  const auto parts = parts_of<float>(
      on, p, std::max<std::int64_t>(2, chunk_length::most_chunks(p.most_keys())), 0, Shape::rows);
  const std::int64_t units = parts.units(p);
  check_blocks(units);
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

/// False if a block can have too little shared memory.
template <class Unit>
bool run_exact(executor& on, const core::attention_problem& p, std::int64_t chunk_keys) {
  using In = typename Unit::In;
  using shape = exact_shape<Unit>;
  if (shape::shared_bytes > on.properties.shared_bytes) {
    return false;
  }
  const auto parts = parts_of_keys<arithmetic_t<In>>(on, p, chunk_keys, shape::rows);
  launch_parts<shape>(on, p, parts, attention_exact<Unit>);
  combine_chunks<In>(on, p, parts);
  return true;
}

/// Of at most 128 dimensions. The second of two units is for devices whose blocks have less memory.
template <class In>
bool run_exact_of(executor& on, const core::attention_problem& p, std::int64_t dims,
                  std::int64_t chunk_keys) {
  if constexpr (sizeof(In) == 4) {
    return dims <= 64 ? run_exact<split_unit<64, 8>>(on, p, chunk_keys)
                      : run_exact<split_unit<128, 8>>(on, p, chunk_keys) ||
                            run_exact<split_unit<128, 4>>(on, p, chunk_keys);
  } else {
    return dims <= 64 ? run_exact<double_unit<64, 8, 32>>(on, p, chunk_keys) ||
                            run_exact<double_unit<64, 4, 16>>(on, p, chunk_keys)
                      : run_exact<double_unit<128, 8, 32>>(on, p, chunk_keys) ||
                            run_exact<double_unit<128, 2, 16>>(on, p, chunk_keys);
  }
}

/// Other kernels have what it does not multiply: many dimensions, and few rows of f32 and f64.
constexpr bool has_matrix_unit = true;

/// Of at most 256 dimensions.
template <class In>
void run_16_bits(executor& on, const core::attention_problem& p, std::int64_t rows,
                 std::int64_t dims, std::int64_t chunk_keys) {
  constexpr std::int64_t few = 16;
  if (rows <= few) {
    run_few_of<In>(on, p, rows, dims);
    return;
  }
#if SOFTFOLD_CUDA_HAS_GROUPS
  if (goes_by_groups<In>(on, p)) {
    const auto parts = parts_of_keys<float>(on, p, chunk_keys, rows_of_groups);
    launch_by_groups<In>(on, p, parts);
    combine_chunks<In>(on, p, parts);
    return;
  }
#endif
  dims <= 64    ? run_tiles<In, tile_shape<64, 4, 2, 2>>(on, p, chunk_keys)
  : dims <= 128 ? run_tiles<In, tile_shape<128, 4, 2, 2>>(on, p, chunk_keys)
                : run_tiles<In, tile_shape<256, 4, 1, 2>>(on, p, chunk_keys);
}

/// False, and nothing is launched, if the problem is not for the matrix unit. By a key head's rows
/// and the keys, whatever the batch.
template <class In>
bool run_by_matrix_unit(executor& on, const core::attention_problem& p) {
  const std::int64_t dims = largest_dim(p);
  const std::int64_t rows = p.group * p.most_queries();
  constexpr std::int64_t some = 256;
  const std::int64_t chunk_keys = rows <= some ? 1024 : 0;
  if (p.k.tokens > std::numeric_limits<int>::max() / 2) {
    return false;
  }
  if constexpr (sizeof(In) == 2) {
    if (dims <= 256) {
      run_16_bits<In>(on, p, rows, dims, chunk_keys);
    }
    return dims <= 256;
  } else {
    constexpr std::int64_t few = 8;
    return rows > few && dims <= 128 && run_exact_of<In>(on, p, dims, chunk_keys);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

#include <gpu/attention.inl>
