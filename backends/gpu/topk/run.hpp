// SPDX-License-Identifier: Apache-2.0
/// \file
/// Runs topk, softmax_topk and fold_topk: plans, and starts the plan's kernels. Short rows have
/// those of by_lanes.hpp and bounded.hpp, small k those of lists.hpp, any k those of selection.hpp.
#pragma once

#include <gpu/executor.hpp>
#include <gpu/plan/constants.hpp>
#include <gpu/plan/shape.hpp>
#include <gpu/plan/sizes.hpp>
#include <gpu/topk/bounded.hpp>
#include <gpu/topk/by_lanes.hpp>
#include <gpu/topk/by_packs.hpp>
#include <gpu/topk/lists.hpp>
#include <gpu/topk/selection.hpp>
#include <gpu/typed.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The kernels' arguments; `memory` is scratch memory of those sizes.
template <class In>
topk_arguments<In> arguments_of(const core::topk_problem& p, const topk_plan& plan,
                                const topk_scratch& sizes, std::byte* memory) {
  using T = arithmetic_t<In>;
  const auto output = [](const matrix_ref& m) { return ranked_output{m.data, m.type, m.stride}; };
  const auto* const x = static_cast<const In*>(p.x.data);
  const scaling scale = scaling::of(p.scale);
  return {
      .x = x,
      .memory = {x, p.x.rows, p.x.cols, p.x.stride},
      .rows = p.x.rows,
      .cols = p.x.cols,
      .x_stride = p.x.stride,
      .k = p.indices.cols,
      .column_offset = p.column_offset,
      .scale = static_cast<T>(scale.factor),
      .map = scale.map,
      .folds = p.folds(),
      .empty_is_zero = p.policy == empty_row::zero,
      .group_vectors = plan.group_vectors,
      .groups = plan.groups,
      .chunks = plan.chunks,
      .span = plan.span,
      .spans = plan.spans(),
      .capacity = plan.capacity,
      .keys = sizes.keys > 0 ? reinterpret_cast<key_t<In>*>(memory) : nullptr,
      .parts =
          sizes.states > 0 ? reinterpret_cast<softmax_state<T>*>(memory + sizes.keys) : nullptr,
      .entries = sizes.entries > 0 ? memory + sizes.keys + sizes.states : nullptr,
      .indices = output(p.indices),
      .values = output(p.values),
      .probabilities = output(p.probabilities),
      .lse = p.lse.data,
      .lse_kind = lse_kind(p.lse.type),
      .partials = static_cast<max_sum<T>*>(p.partials.data),
  };
}

/// Calls body with the elements of a pack as a compile-time constant.
template <class Body>
void with_pack(int elements, const Body& body) {
  static_assert(std::size(pack_sizes) == 4 && pack_sizes[3] == 64);
  switch (elements) {
    case 8:
      return body(std::integral_constant<int, 8>());
    case 16:
      return body(std::integral_constant<int, 16>());
    case 32:
      return body(std::integral_constant<int, 32>());
    default:
      return body(std::integral_constant<int, 64>());
  }
}

/// The lists of a plan's spans, by one kernel; without states.
template <int lanes, class In>
void launch_spans(stream_handle stream, const topk_arguments<In>& arguments, const topk_plan& plan,
                  std::size_t shared_bytes, packed_entry* lists) {
  launch_shared(stream, topk_chunks<lanes, list_of::span, In>, arguments.rows * plan.spans(),
                plan.threads, shared_bytes, arguments, lists);
}

template <int lanes, class In, class Entry>
void launch_topk(executor& on, const core::topk_problem& p, const topk_plan& plan) {
  using T = arithmetic_t<In>;
  const topk_scratch sizes = scratch_of(p, plan);
  auto* const memory = static_cast<std::byte*>(on.scratch.at_least(sizes.bytes()));
  const topk_arguments<In> arguments = arguments_of<In>(p, plan, sizes, memory);
  const stream_handle stream = on.stream;
  if constexpr (std::is_same_v<Entry, packed_entry>) {
    if (plan.kind == topk_plan_kind::lanes) {
      const row_plan& row = plan.row;
      const std::int64_t blocks = divide_up(p.x.rows * row.lanes, row.threads);
      if (plan.ranked == 0) {
        using Sorted = typename sort_entry<In>::type;
        launch_shared(stream, topk_rows_by_sorting<lanes, In, sorted_vectors>, blocks, row.threads,
                      row.threads * sorted_stride<In, sorted_vectors> * sizeof(Sorted), arguments,
                      row_shift(row));
        return;
      }
      with_vectors(row.vectors, [&](auto v) {
        const auto rank = [&](auto most) {
          launch_shared(
              stream, topk_rows_by_lanes<lanes, most(), In, v()>, blocks, row.threads,
              row.threads / row.lanes * sizeof(typename best_of_row<most(), In, v()>::memory),
              arguments, row_shift(row));
        };
        if constexpr (v() >= least_ranked_vectors) {
          if (plan.ranked > 1) {
            rank(std::integral_constant<int, most_ranked>());
            return;
          }
        }
        rank(std::integral_constant<int, 1>());
      });
      return;
    }
    if (plan.kind == topk_plan_kind::packs) {
      const pack_layout layout = layout_of_packs(shape_of(p.x), arguments.k, plan, lanes);
      const int warps = plan.row.threads / lanes;
      const std::int64_t rows = std::int64_t{warps} * plan.warp_rows;
      with_pack(plan.pack, [&](auto most) {
        launch_shared(stream, topk_rows_by_packs<lanes, most(), In>, divide_up(p.x.rows, rows),
                      plan.row.threads, warps * layout.bytes, arguments, layout);
      });
      return;
    }
    if (plan.kind == topk_plan_kind::bounded) {
      launch_shared(stream, topk_bounded<lanes, In>, p.x.rows, lanes,
                    bounded_layout<lanes, In>::bytes(p.indices.cols), arguments,
                    plan.threads / lanes);
      return;
    }
    if (plan.kind == topk_plan_kind::lists) {
      const std::size_t states = arguments.folds ? plan.span * (plan.threads / lanes + 1) : 0;
      if (plan.spans() > 1) {
        auto* const lists = reinterpret_cast<packed_entry*>(memory + sizes.keys + sizes.states);
        launch_spans<lanes>(stream, arguments, plan, states * sizeof(softmax_state<T>), lists);
        launch_next(stream, topk_merge<lanes, In>, p.x.rows, merge_threads, 0, arguments,
                    span_lists{lists, arguments.k, plan.spans()});
        return;
      }
      launch_shared(stream,
                    plan.chunks == 1 ? topk_chunks<lanes, list_of::chunk, In>
                                     : topk_chunks<lanes, list_of::row, In>,
                    p.x.rows, plan.threads, states * sizeof(softmax_state<T>), arguments,
                    static_cast<packed_entry*>(nullptr));
      return;
    }
  }
  const int threads = plan.selection_threads();
  const topk_layout<In, Entry> layout(
      plan.capacity, arguments.entries == nullptr, plan.groups, arguments.keys == nullptr,
      arguments.scans() ? plan.chunks * (chunk_threads / lanes + 1) : 0,
      plan.group_vectors > 0 ? plan.capacity : 0);
  void (*const kernel)(topk_arguments<In>) =
      plan.group_vectors > 0 ? topk_row<lanes, competitors::groups, In, Entry>
                             : topk_row<lanes, competitors::elements, In, Entry>;
  if (plan.split && (plan.groups > 0 || p.folds())) {
    launch_grid(stream, topk_scan_chunk<lanes, In>, p.x.rows * plan.chunks, chunk_threads,
                arguments);
    launch_next(stream, kernel, p.x.rows, threads, layout.bytes, arguments);
    return;
  }
  launch_shared(stream, kernel, p.x.rows, threads, layout.bytes, arguments);
}

template <class In>
void run_as(executor& on, const core::topk_problem& p) {
  const runtime::current_device current(on.device);
  const row_shape shape = shape_of(p.x);
  const topk_plan plan = plan_topk(shape, p.x.rows, p.indices.cols, on.limits(), on.forced);
  on.last = plan;
  with_lanes(on.properties.lanes, [&](auto lanes) {
    if constexpr (std::is_same_v<In, double>) {
      launch_topk<lanes(), In, wide_entry>(on, p, plan);
    } else {
      if (has_packed_entries(shape)) {
        launch_topk<lanes(), In, packed_entry>(on, p, plan);
      } else {
        launch_topk<lanes(), In, wide_entry>(on, p, plan);
      }
    }
  });
}

template <class In>
span_lists list_spans_as(executor& on, const core::topk_problem& p, scratch& memory) {
  if constexpr (!std::is_same_v<In, double>) {
    const runtime::current_device current(on.device);
    const topk_plan plan =
        plan_topk(shape_of(p.x), p.x.rows, p.indices.cols, on.limits(), on.forced);
    if (plan.kind == topk_plan_kind::lists && plan.spans() > 1) {
      on.last = plan;
      auto* const lists = static_cast<packed_entry*>(memory.at_least(scratch_of(p, plan).lists));
      with_lanes(on.properties.lanes, [&](auto lanes) {
        launch_spans<lanes()>(on.stream, arguments_of<In>(p, plan, {}, nullptr), plan, 0, lists);
      });
      return {lists, p.indices.cols, plan.spans()};
    }
  }
  return {};
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
