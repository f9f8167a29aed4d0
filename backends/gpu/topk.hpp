// SPDX-License-Identifier: Apache-2.0
/// \file
/// The launch of topk, softmax_topk and fold_topk. Short rows have the kernels of topk_lanes.hpp
/// and topk_bounded.hpp, small k those of topk_chunk.hpp, any k those of topk_selection.hpp.
#pragma once

#include "launch.hpp"
#include "rows.hpp"
#include "topk_bounded.hpp"
#include "topk_calls.hpp"
#include "topk_chunk.hpp"
#include "topk_lanes.hpp"
#include "topk_selection.hpp"

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Calls body with the plan's number, which is more than 1, as a compile-time constant.
template <class Body>
void with_ranked(int ranked, const Body& body) {
  static_assert(most_ranked == 32);
  switch (ranked) {
    case 8:
      return body(std::integral_constant<int, 8>());
    case 16:
      return body(std::integral_constant<int, 16>());
    default:
      return body(std::integral_constant<int, 32>());
  }
}

template <int lanes, class In, class Entry>
void launch_topk_with(const topk_call& call, const topk_plan& plan, void* scratch,
                      stream_handle stream) {
  using T = arithmetic_t<In>;
  const topk_scratch sizes = scratch_of(call, plan);
  auto* const memory = static_cast<std::byte*>(scratch);
  const auto output = [](const matrix_ref& m) { return ranked_output{m.data, m.type, m.stride}; };
  const auto* const x = static_cast<const In*>(call.x.data);
  topk_arguments<In> arguments = {
      x,
      {x, call.x.rows, call.x.cols, call.x.stride},
      call.x.rows,
      call.x.cols,
      call.x.stride,
      call.k,
      call.column_offset,
      static_cast<T>(call.scale.factor),
      call.scale.map,
      call.folds(),
      call.policy == empty_row::zero,
      plan.group_vectors,
      plan.groups,
      plan.chunks,
      plan.span,
      plan.spans(),
      plan.capacity,
      sizes.keys > 0 ? reinterpret_cast<key_t<In>*>(memory) : nullptr,
      sizes.states > 0 ? reinterpret_cast<state<T>*>(memory + sizes.keys) : nullptr,
      sizes.entries > 0 ? memory + sizes.keys + sizes.states : nullptr,
      output(call.indices),
      output(call.values),
      output(call.probabilities),
      call.lse.data,
      lse_kind(call.lse.type),
      static_cast<max_sum<T>*>(call.partials.data)};
  if constexpr (std::is_same_v<Entry, packed_entry>) {
    if (plan.kind == topk_plan_kind::lanes) {
      const row_plan& row = plan.row;
      const std::int64_t blocks = divide_up(call.x.rows * row.lanes, row.threads);
      with_vectors(row.vectors, [&](auto v) {
        using Sorted = typename sort_entry<In>::type;
        const auto rank = [&](auto most) {
          launch_shared(stream, topk_rows_by_lanes<lanes, most(), In, v()>, blocks, row.threads,
                        row.threads / row.lanes * most() * sizeof(Sorted), arguments,
                        row_shift(row));
        };
        if constexpr (v() <= most_sorted_vectors && (v() & (v() - 1)) == 0) {
          if (plan.ranked == 0) {
            launch_shared(stream, topk_rows_by_sorting<lanes, In, v()>, blocks, row.threads,
                          row.threads * sorted_stride<In, v()> * sizeof(Sorted), arguments,
                          row_shift(row));
            return;
          }
        }
        if constexpr (v() >= least_ranked_vectors) {
          if (plan.ranked > 1) {
            with_ranked(plan.ranked, rank);
            return;
          }
        }
        rank(std::integral_constant<int, 1>());
      });
      return;
    }
    if (plan.kind == topk_plan_kind::bounded) {
      launch_shared(stream, topk_bounded<lanes, In>, call.x.rows, lanes,
                    bounded_layout<lanes, In>::bytes(call.k), arguments, plan.threads / lanes);
      return;
    }
    if (plan.kind == topk_plan_kind::lists) {
      auto* const lists = sizes.lists > 0
                              ? reinterpret_cast<packed_entry*>(memory + sizes.keys + sizes.states)
                              : nullptr;
      const std::size_t states = arguments.folds ? plan.span * (plan.threads / lanes + 1) : 0;
      void (*const kernel)(topk_arguments<In>, packed_entry*) =
          lists != nullptr   ? topk_chunks<lanes, list_of::span, In>
          : plan.chunks == 1 ? topk_chunks<lanes, list_of::chunk, In>
                             : topk_chunks<lanes, list_of::row, In>;
      launch_shared(stream, kernel, call.x.rows * plan.spans(), plan.threads,
                    states * sizeof(state<T>), arguments, lists);
      if (lists != nullptr) {
        launch_next(stream, topk_merge<lanes, In>, call.x.rows, merge_threads, 0, arguments,
                    static_cast<const packed_entry*>(lists));
      }
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
  if (plan.split && (plan.groups > 0 || call.folds())) {
    launch(stream, topk_scan_chunk<lanes, In>, call.x.rows * plan.chunks, chunk_threads, arguments);
    launch_next(stream, kernel, call.x.rows, threads, layout.bytes, arguments);
    return;
  }
  launch_shared(stream, kernel, call.x.rows, threads, layout.bytes, arguments);
}

template <class In>
void launch_topk(const topk_call& call, const topk_plan& plan, void* scratch, stream_handle stream,
                 int lanes) {
  with_lanes(lanes, [&](auto w) {
    if constexpr (std::is_same_v<In, double>) {
      launch_topk_with<w(), In, wide_entry>(call, plan, scratch, stream);
    } else {
      if (has_packed_entries(call.x.shape())) {
        launch_topk_with<w(), In, packed_entry>(call, plan, scratch, stream);
      } else {
        launch_topk_with<w(), In, wide_entry>(call, plan, scratch, stream);
      }
    }
  });
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
