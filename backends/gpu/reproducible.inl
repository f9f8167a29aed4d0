// SPDX-License-Identifier: Apache-2.0
/// \file
/// Reproducible numerics for rows of one element type: totals, then results by them.
#pragma once

#include <gpu/plan/constants.hpp>
#include <gpu/plan/plan.hpp>
#include <gpu/reproducible/gradients.hpp>
#include <gpu/reproducible/in_registers.hpp>
#include <gpu/reproducible/maps.hpp>
#include <gpu/reproducible/run.hpp>
#include <gpu/scratch_arrays.hpp>
#include <gpu/typed.hpp>

#include <algorithm>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class In>
void launch_parts(executor& on, const total_plan& plan, const const_matrix_ref& x,
                  double given_scale, part_total<arithmetic_t<In>>* parts,
                  const total_results<arithmetic_t<In>>& to) {
  if constexpr (!std::is_same_v<In, double>) {
    const auto source = row_source<In>::of(x);
    const auto scale = static_cast<float>(given_scale);
    with_lanes(on.properties.lanes, [&](auto lanes) {
      if (plan.by_tiles()) {
        return launch_tiles<lanes()>(on.stream, source, scale, plan.plain_tiles, plan.tiles, to);
      }
      const auto read = [&](auto scaled) {
        launch_grid(on.stream, total_chunks<lanes(), In, scaled()>, plan.parts(x.rows),
                    reader_threads, source, plan.chunks, ordered_scale<scaled()>::of(scale), parts);
      };
      scale == 1 ? read(std::false_type()) : read(std::true_type());
    });
  }
}

template <class In>
void launch_totals(executor& on, const total_plan& plan, const const_matrix_ref& x, double scale,
                   part_total<arithmetic_t<In>>* parts, const total_results<arithmetic_t<In>>& to) {
  if (!plan.plainly) {
    launch_parts<In>(on, plan, x, scale, parts, to);
  }
  if (plan.by_tiles()) {
    return;
  }
  with_lanes(on.properties.lanes, [&](auto lanes) {
    const auto kernel = total_of_parts<lanes(), In>;
    const auto source = row_source<In>::of(x);
    const auto by = static_cast<arithmetic_t<In>>(scale);
    if (plan.plainly) {
      launch_grid(on.stream, kernel, x.rows, reader_threads, source, plan.chunks, by, nullptr, to);
    } else {
      launch_next(on.stream, kernel, x.rows, reader_threads, 0, source, plan.chunks, by, parts, to);
    }
  });
}

/// The totals of rows, on the device until the executor's scratch memory is used again; null if
/// only logsumexps are wanted, which go to `lse`.
template <class In>
const core::reproducible::row_total<arithmetic_t<In>>* find_totals(executor& on,
                                                                   const const_matrix_ref& x,
                                                                   double scale, bool wanted,
                                                                   const matrix_ref& lse) {
  using A = arithmetic_t<In>;
  const auto plan = total_plan::of<In>(on, x, scale);
  total_results<A> to{.lse = lse.data, .is_narrow = lse.type != dtype_of<A>};
  part_total<A>* parts = nullptr;
  scratch_arrays::lay_out(on, [&](scratch_arrays& memory) {
    to.totals = memory.take<core::reproducible::row_total<A>>(wanted ? x.rows : 0);
    parts = memory.take<part_total<A>>(plan.parts(x.rows));
  });
  launch_totals<In>(on, plan, x, scale, parts, to);
  return to.totals;
}

/// softmax or log-softmax in one read, of rows that registers hold; false, and nothing launched, if
/// they are not such.
template <class In>
bool run_in_registers(executor& on, const core::row_problem& p) {
  if constexpr (std::is_same_v<In, double>) {
    return false;
  } else {
    if (p.whole.data != nullptr || p.y.type != dtype_of<In> || !has_tiles(p.scale)) {
      return false;
    }
    constexpr bool is_narrow = sizeof(In) == 2;
    constexpr std::int64_t short_row = is_narrow ? 1024 : 0;  // in vectors
    const auto source = row_source<In>::of(p.x);
    auto* const y = static_cast<In*>(p.y.data);
    const auto scale = static_cast<float>(p.scale);
    const bool is_plain = are_plain(source, p.scale) &&
                          row_source<In>::begins_at(y, p.y.rows, p.y.stride, vector_bytes);
    const auto run = [&]<map_operation op, bool plain, bool keep>() {
      using job_type = total_map<op, In, plain, keep>;
      const packet_warps warps = {short_row, job_type::shared_vectors, most_sharers<job_type, 8>};
      const row_plan plan = plan_once(source.shape(), warps, on.limits(), on.forced);
      const bool is_short = plan.kind == row_plan_kind::lanes || plan.vectors == 4;
      if (plan.kind == row_plan_kind::chunks ||
          !(is_short ? job_type::has_short : job_type::has_long)) {
        return false;
      }
      on.last = plan;
      const job_type job = {{source, scale}, y, p.y.stride, p.policy == empty_row::zero};
      with_lanes(on.properties.lanes,
                 [&](auto lanes) { launch_totals<lanes()>(job, plan, on.stream); });
      return true;
    };
    using enum map_operation;
    const std::int64_t vectors = divide_up(p.x.cols, vector_width<In>);
    if (p.what == core::operation::log_softmax) {
      return is_plain ? run.template operator()<log_softmax, true, false>()
                      : run.template operator()<log_softmax, false, false>();
    }
    if (is_plain) {
      return vectors <= (is_narrow ? short_row : 32768)
                 ? run.template operator()<softmax, true, true>()
                 : run.template operator()<softmax, true, false>();
    }
    // Two reads of longer ones take no longer.
    return (!is_narrow || vectors <= 8192) && run.template operator()<softmax, false, true>();
  }
}

template <class In>
void run_reproducibly(executor& on, const core::row_problem& p) {
  const runtime::current_device current(on.device);
  if (p.x.rows == 0 || (p.x.cols == 0 && p.what != core::operation::logsumexp)) {
    return;
  }
  if (p.what == core::operation::logsumexp) {
    find_totals<In>(on, p.x, p.scale, false, p.y);
    return;
  }
  if (run_in_registers<In>(on, p)) {
    return;
  }
  const const_matrix_ref& whole = p.whole.data != nullptr ? p.whole : p.x;
  const auto* const totals = find_totals<In>(on, whole, p.scale, true, {});
  map_by_totals<In>(on, p, totals);
}

template <class In>
void map_by_totals(executor& on, const core::row_problem& p,
                   const core::reproducible::row_total<arithmetic_t<In>>* totals) {
  core::with_output<In>(p.y.type, [&]<class Out>(Out) {
    const auto map = [&](auto log) {
      const auto source = row_source<In>::of(p.x);
      const result_rows<Out> to = {static_cast<Out*>(p.y.data), p.y.stride,
                                   p.policy == empty_row::zero};
      // Rows that begin within a vector have one more.
      const std::int64_t vectors = divide_up(p.x.cols, vector_width<In>) + 1;
      constexpr std::int64_t of_chunk = std::int64_t{reader_threads} * map_vectors;
      if (vectors < of_chunk) {
        launch_next(on.stream, map_rows_by_total<In, Out, log()>,
                    divide_up(p.x.rows * vectors, reader_threads), reader_threads, 0, source, to,
                    static_cast<unsigned>(vectors), totals);
      } else {
        const std::int64_t chunks = divide_up(vectors, of_chunk);
        launch_next(on.stream, map_chunks_by_total<In, Out, log()>, p.x.rows * chunks,
                    reader_threads, 0, source, to, static_cast<int>(chunks), totals);
      }
    };
    p.what == core::operation::log_softmax ? map(std::true_type()) : map(std::false_type());
  });
}

template <class In>
void run_reproducibly(executor& on, const core::topk_problem& p) {
  core::topk_problem lists = p;
  lists.probabilities = {};
  lists.lse = {};
  run_as<In>(on, lists);
  const runtime::current_device current(on.device);
  const auto* const totals =
      find_totals<In>(on, p.x, p.scale, true, {p.lse.data, p.lse.type, p.x.rows, 1, 1});
  if (p.probabilities.data != nullptr) {
    launch_next(on.stream, map_list_by_total<In>,
                divide_up(p.x.rows * p.indices.cols, reader_threads), reader_threads, 0,
                row_source<In>::of(p.x), p.indices, p.probabilities, p.policy == empty_row::zero,
                totals);
  }
}

template <class In>
void run_reproducibly(executor& on, const core::backward_problem& p) {
  using A = arithmetic_t<In>;
  if (p.y.rows == 0 || p.y.cols == 0) {
    return;
  }
  const runtime::current_device current(on.device);
  const auto source = gradient_source<In>::of(p);
  const std::int64_t tiles = divide_up(p.y.cols, core::reproducible::tile_columns);
  double* sums = nullptr;
  core::reproducible::row_gradient<A>* totals = nullptr;
  scratch_arrays::lay_out(on, [&](scratch_arrays& memory) {
    sums = memory.take<double>(p.y.rows * tiles);
    totals = memory.take<core::reproducible::row_gradient<A>>(p.y.rows);
  });
  with_lanes(on.properties.lanes, [&](auto lanes) {
    constexpr int warps = reader_threads / lanes();
    launch_grid(on.stream, gradient_tiles<lanes(), In>, divide_up(p.y.rows * tiles, warps),
                reader_threads, source, tiles, sums);
    launch_next(on.stream, gradient_rows<lanes(), A>, divide_up(p.y.rows, warps), reader_threads, 0,
                p.y.rows, tiles, source.scale, sums, totals);
  });
  const std::int64_t blocks_of_row = divide_up(p.y.cols, block_columns);
  core::with_output<In>(p.dx.type, [&]<class Out>(Out) {
    launch_next(on.stream, map_gradients<In, Out>,
                divide_up(p.y.rows * blocks_of_row, reader_threads), reader_threads, 0, source,
                blocks_of_row, static_cast<Out*>(p.dx.data), p.dx.stride, totals);
  });
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

#define SOFTFOLD_GPU_REPRODUCIBLE(In)                                                           \
  namespace softfold::gpu {                                                                     \
  inline namespace SOFTFOLD_BACKEND {                                                           \
  template void launch_parts<In>(executor&, const total_plan&, const const_matrix_ref&, double, \
                                 part_total<arithmetic_t<In>>*,                                 \
                                 const total_results<arithmetic_t<In>>&);                       \
  template void run_reproducibly<In>(executor&, const core::row_problem&);                      \
  template void run_reproducibly<In>(executor&, const core::topk_problem&);                     \
  template void run_reproducibly<In>(executor&, const core::backward_problem&);                 \
  }                                                                                             \
  }                                                                                             \
  static_assert(true)
