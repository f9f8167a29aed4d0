// SPDX-License-Identifier: Apache-2.0
/// \file
/// attention and fold_attention: where rows are few, keys are cut into chunks, whose states a
/// second kernel combines in their order. And combine and normalize of states.
#include <gpu/attention/by_lanes.hpp>
#include <gpu/attention/by_tiles.hpp>
#include <gpu/attention/parts.hpp>
#include <gpu/contract.hpp>
#include <gpu/typed.hpp>

#include <core/attention.hpp>
#include <core/real_types.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

constexpr int threads = 256;

template <class In, class Shape>
void run_by_tiles(executor& on, const core::attention_problem& p, std::int64_t chunk_keys) {
  using A = arithmetic_t<In>;
  const auto parts = parts_of_keys<A>(on, p, chunk_keys, Shape::rows);
  launch_shared(on.stream, attention_by_tiles<In, Shape>, parts.units(p), Shape::threads,
                sizeof(tiles_memory<A, Shape>), p, parts);
  combine_chunks<In>(on, p, parts);
}
template <class In, class Shape>
void run_by_lanes(executor& on, const core::attention_problem& p) {
  using A = arithmetic_t<In>;
  const auto parts = parts_of_keys<A>(on, p, Shape::keys, Shape::rows);
  launch_grid(on.stream, attention_by_lanes<In, Shape>, parts.units(p), Shape::threads, p, parts);
  combine_chunks<In>(on, p, parts);
}

/// Kernels for at most so many dimensions, of which a thread has `own_columns` columns, or a lane
/// of a query or key so many vectors.
template <class In, int own_columns, int vectors>
struct attention_kernels {
  using A = arithmetic_t<In>;
  static constexpr int own_values =
      128 / static_cast<int>(sizeof(A));  // a quarter of its registers
  using many_rows = tiles_shape<A, own_values / own_columns, own_columns>;
  static constexpr int most_dims = many_rows::groups * many_rows::group_columns;
  static constexpr int key_lanes = most_dims / (vectors * vector_width<In>);
  template <int rows>
  using few_rows = lanes_shape<In, rows, key_lanes, vectors>;
};

/// Chunks and kernels by what a key head's rows are, whatever the batch.
template <class In>
void run_attention(executor& on, const core::attention_problem& p) {
  constexpr int vectors = sizeof(In) == 2 ? 2 : 4;
  using narrow = attention_kernels<In, 4, vectors>;
  using middle = attention_kernels<In, 8, vectors>;
  using wide = attention_kernels<In, 16, sizeof(In) == 8 ? 8 : vectors>;
  if constexpr (has_matrix_unit) {
    if (run_by_matrix_unit<In>(on, p)) {
      return;
    }
  }
  const std::int64_t dims = p.q.dim > p.v.dim ? p.q.dim : p.v.dim;
  const std::int64_t rows = p.group * p.most_queries();
  constexpr std::int64_t few = 8;
  constexpr std::int64_t some = 256;
  const std::int64_t chunk_keys = rows <= some ? 1024 : 0;
  if constexpr (sizeof(In) != 2 || !has_matrix_unit) {
    if (rows <= few && dims <= middle::most_dims) {
      const bool is_narrow = dims <= narrow::most_dims;
      if (rows == 1) {
        is_narrow ? run_by_lanes<In, typename narrow::template few_rows<1>>(on, p)
                  : run_by_lanes<In, typename middle::template few_rows<1>>(on, p);
      } else {
        is_narrow ? run_by_lanes<In, typename narrow::template few_rows<4>>(on, p)
                  : run_by_lanes<In, typename middle::template few_rows<4>>(on, p);
      }
      return;
    }
  }
  if constexpr (!has_matrix_unit) {
    if (p.v.dim <= middle::most_dims) {
      p.v.dim <= narrow::most_dims&& rows > middle::many_rows::rows
          ? run_by_tiles<In, typename narrow::many_rows>(on, p, chunk_keys)
          : run_by_tiles<In, typename middle::many_rows>(on, p, chunk_keys);
      return;
    }
  }
  rows <= few ? run_by_lanes<In, typename wide::template few_rows<1>>(on, p)
              : run_by_tiles<In, typename wide::many_rows>(on, p, chunk_keys);
}

/// A block a row.
template <class A>
__global__ void __launch_bounds__(threads)
    attention_combine_states(const core::combine_attention_problem p) {
  const std::int64_t row = blockIdx.x;
  auto* const state = static_cast<max_sum<A>*>(p.states.data) + row;
  const auto both =
      core::attention_combination<A>::of(*state, static_cast<const max_sum<A>*>(p.more.data)[row]);
  const A* const more =
      static_cast<const A*>(p.more_weighted.data) + core::offset_of(p.more_weighted, row);
  A* const to = static_cast<A*>(p.weighted.data) + core::offset_of(p.weighted, row);
  for (std::int64_t i = threadIdx.x; i < p.weighted.dim; i += threads) {
    to[i] = both.sum(to[i], more[i]);
  }
  __syncthreads();  // all have read the states
  if (threadIdx.x == 0) {
    *state = both.whole;
  }
}

template <class A>
__global__ void __launch_bounds__(threads)
    attention_normalize_states(const core::normalize_attention_problem p) {
  const std::int64_t row = blockIdx.x;
  const auto result =
      core::attention_result<A>::of(static_cast<const max_sum<A>*>(p.states.data)[row], p.policy);
  const A* const o = static_cast<const A*>(p.weighted.data) + core::offset_of(p.weighted, row);
  const std::int64_t to = core::offset_of(p.out, row);
  for (std::int64_t i = threadIdx.x; i < p.out.dim; i += threads) {
    core::write_real(p.out.data, p.out.type, to + i, result.of_weighted(o[i]));
  }
}

}  // namespace

void attention(executor& on, const core::attention_problem& p) {
  if (!p.has_work()) {
    return;
  }
  const runtime::current_device current(on.device);
  core::with_real(p.q.type, [&]<class In>(In) { run_attention<In>(on, p); });
}

void combine_attention(executor& on, const core::combine_attention_problem& p) {
  if (p.states.size == 0) {
    return;
  }
  const runtime::current_device current(on.device);
  p.states.type == dtype::f64
      ? launch_grid(on.stream, attention_combine_states<double>, p.states.size, threads, p)
      : launch_grid(on.stream, attention_combine_states<float>, p.states.size, threads, p);
}

void normalize_attention(executor& on, const core::normalize_attention_problem& p) {
  if (p.states.size == 0) {
    return;
  }
  const runtime::current_device current(on.device);
  p.states.type == dtype::f64
      ? launch_grid(on.stream, attention_normalize_states<double>, p.states.size, threads, p)
      : launch_grid(on.stream, attention_normalize_states<float>, p.states.size, threads, p);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
