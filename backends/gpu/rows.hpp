// SPDX-License-Identifier: Apache-2.0
/// \file
/// The launches of softmax, log-softmax, logsumexp, fold and normalize.
#pragma once

#include "launch.hpp"
#include "map_rows.hpp"
#include "reduce_rows.hpp"

#include <bit>
#include <limits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// A plan's lanes as a power of 2.
inline int row_shift(const row_plan& plan) {
  return std::countr_zero(static_cast<unsigned>(plan.lanes));
}

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Calls body with the compile-time number of vectors.
template <class Body>
void with_vectors(int vectors, Body&& body) {
  switch (vectors) {
    case 1:
      return body(std::integral_constant<int, 1>());
    case 2:
      return body(std::integral_constant<int, 2>());
    case 4:
      return body(std::integral_constant<int, 4>());
    case 5:
      return body(std::integral_constant<int, 5>());
    case 6:
      return body(std::integral_constant<int, 6>());
    case 7:
      return body(std::integral_constant<int, 7>());
    default:
      return body(std::integral_constant<int, 8>());
  }
}

/// The same, or more, for a map: fewer kernels for results wider than the elements.
template <class In, class Out, class Body>
void with_vectors_of(int vectors, Body&& body) {
  if constexpr (sizeof(Out) > sizeof(In)) {
    with_vectors(vectors > 4 ? 8 : vectors, [&](auto v) {
      if constexpr (v() <= 4 || v() == 8) {
        body(v);
      }
    });
  } else {
    with_vectors(vectors, body);
  }
}

template <class In>
reduction_arguments<In> arguments_of(const input_rows& x, const scaling& scale) {
  const auto* const data = static_cast<const In*>(x.data);
  return {data,      {data, x.rows, x.cols, x.stride},
          x.rows,    x.cols,
          x.stride,  static_cast<arithmetic_t<In>>(scale.factor),
          scale.map, 1,
          nullptr,   result_kind::partial,
          nullptr};
}

/// The states of all chunks of all rows.
template <int lanes, class In>
void launch_chunk_states(reduction_arguments<In> call, const row_plan& plan, stream_handle stream) {
  call.chunks = plan.chunks;
  launch(stream, reduce_chunk<lanes, In>, call.rows * plan.chunks, chunk_threads, call);
}

template <int lanes, class T>
void launch_finish(const state<T>* parts, std::int64_t rows, int count, T scale, result_kind kind,
                   void* results, state<T>* states, stream_handle stream) {
  if (count > most_chunks_read_by_all) {
    launch_next(stream, finish_long_rows<lanes, T>, rows, 512, 0, parts, count, scale, kind,
                results, states);
    return;
  }
  launch_next(stream, finish_rows<lanes, T>, divide_up(rows * lanes, 256), 256, 0, parts, rows,
              count, scale, kind, results, states);
}

/// Rows by clusters: each backend's own, and only asked for where device_limits has clusters.
template <int lanes, map_operation op, class In, class Out>
void launch_cluster_rows(const map_arguments<In, Out>& call, const row_plan& plan,
                         stream_handle stream);

/// Both passes over chunks in one launch, by blocks that exchange the chunks' states; false, and
/// nothing launched, if the device has no room for all of them at once now.
template <int lanes, map_operation op, class In, class Out>
bool launch_chunks_together(const map_arguments<In, Out>& call, exchange_memory* exchange,
                            stream_handle stream);
template <int lanes, map_operation op, class In, class Out>
bool launch_streamed_chunks(const map_arguments<In, Out>& call, const row_plan& plan,
                            exchange_memory* exchange, stream_handle stream);

/// Whether all rows, here and where they are written, begin at sectors and are whole vectors, and
/// no element is mapped: kernels for that are shorter; see tile.
template <class In, class Out>
bool is_plain(const map_arguments<In, Out>& call) {
  const auto begins_at_sectors = [&](const auto* data, std::int64_t stride) {
    const std::int64_t stride_bytes = stride * static_cast<std::int64_t>(sizeof *data);
    return reinterpret_cast<std::uintptr_t>(data) % sector_bytes == 0 &&
           (call.rows == 1 || stride_bytes % sector_bytes == 0);
  };
  return call.map == element_map::none && call.cols % vector_width<In> == 0 &&
         begins_at_sectors(call.x, call.x_stride) && begins_at_sectors(call.y, call.y_stride);
}

/// Calls body with whether the rows are plain, at compile time.
template <class In, class Out, class Body>
auto with_plain(const map_arguments<In, Out>& call, Body&& body) {
  return is_plain(call) ? body(std::true_type()) : body(std::false_type());
}

/// The same for rows that a block holds, or several. Those of f64 are never plain: their kernels
/// would be shorter, too, but 8192 x 4096 would take an H200 174 us instead of 130.
template <class In, class Out, class Body>
auto with_plain_long(const map_arguments<In, Out>& call, Body&& body) {
  if constexpr (sizeof(In) == 8) {
    return body(std::false_type());
  } else {
    return with_plain(call, body);
  }
}

template <int lanes, map_operation op, class In, class Out>
void launch_map_as(const map_call& call, const row_plan& plan, void* scratch,
                   stream_handle stream) {
  using T = arithmetic_t<In>;
  const double empty = call.policy == empty_row::nan ? std::numeric_limits<double>::quiet_NaN()
                       : call.log                    ? -std::numeric_limits<double>::infinity()
                                                     : 0;
  const auto* const x = static_cast<const In*>(call.x.data);
  map_arguments<In, Out> arguments = {x,
                                      {x, call.x.rows, call.x.cols, call.x.stride},
                                      static_cast<Out*>(call.y),
                                      call.x.rows,
                                      call.x.cols,
                                      call.x.stride,
                                      call.y_stride,
                                      static_cast<T>(call.scale.factor),
                                      call.scale.map,
                                      Out(static_cast<arithmetic_t<Out>>(empty)),
                                      static_cast<const max_sum<T>*>(call.given),
                                      nullptr,
                                      1,
                                      plan.chunks};
  switch (plan.kind) {
    case row_plan_kind::lanes:
      with_vectors_of<In, Out>(plan.vectors, [&](auto v) {
        const std::int64_t blocks = divide_up(call.x.rows * plan.lanes, plan.threads);
        if constexpr (stages_rows) {
          const std::size_t row_bytes = static_cast<std::size_t>(call.x.cols) * sizeof(Out);
          if (call.y_stride == call.x.cols && row_bytes % sector_bytes != 0 &&
              row_bytes <= most_staged_bytes) {
            launch_shared(stream, map_rows_by_lanes<lanes, op, row_ends::staged, In, Out, v()>,
                          blocks, plan.threads,
                          static_cast<std::size_t>(plan.threads / plan.lanes) * row_bytes + 32,
                          arguments, row_shift(plan));
            return;
          }
        }
        with_plain(arguments, [&](auto plain) {
          constexpr row_ends ends = plain() ? row_ends::plain : row_ends::any;
          launch(stream, map_rows_by_lanes<lanes, op, ends, In, Out, v()>, blocks, plan.threads,
                 arguments, row_shift(plan));
        });
      });
      return;
    case row_plan_kind::block:
      with_plain_long(arguments, [&](auto plain) {
        if (plan.vectors == 4) {
          launch(stream, map_row_by_block<lanes, op, plain(), In, Out, 4>, call.x.rows,
                 plan.threads, arguments);
        } else {
          launch(stream, map_row_by_block<lanes, op, plain(), In, Out, 8>, call.x.rows,
                 plan.threads, arguments);
        }
      });
      return;
    case row_plan_kind::cluster:
      launch_cluster_rows<lanes, op>(arguments, plan, stream);
      return;
    case row_plan_kind::chunks:
      break;
  }
  if (plan.pass == second_pass::together &&
      launch_chunks_together<lanes, op>(arguments, call.exchange, stream)) {
    return;
  }
  if (plan.pass == second_pass::streamed &&
      launch_streamed_chunks<lanes, op>(arguments, plan, call.exchange, stream)) {
    return;
  }
  if (call.given == nullptr) {
    auto* const parts = static_cast<state<T>*>(scratch);
    reduction_arguments<In> fold = arguments_of<In>(call.x, call.scale);
    fold.parts = parts;
    launch_chunk_states<lanes>(fold, plan, stream);
    arguments.parts = parts;
    arguments.part_count = plan.chunks;
    if (plan.chunks > most_chunks_read_by_all) {
      state<T>* const wholes = parts + call.x.rows * plan.chunks;
      launch_finish<lanes>(parts, call.x.rows, plan.chunks, arguments.scale, result_kind::partial,
                           nullptr, wholes, stream);
      arguments.parts = wholes;
      arguments.part_count = 1;
    }
  }
  launch(stream, map_chunk<lanes, op, In, Out, chunk_vectors_each>, call.x.rows * plan.chunks,
         chunk_threads, arguments);
}

template <int lanes, class In, class Out>
void launch_map_to(const map_call& call, const row_plan& plan, void* scratch,
                   stream_handle stream) {
  if (call.log) {
    launch_map_as<lanes, map_operation::log_softmax, In, Out>(call, plan, scratch, stream);
  } else {
    launch_map_as<lanes, map_operation::softmax, In, Out>(call, plan, scratch, stream);
  }
}

template <int lanes, class In>
void launch_map_with(const map_call& call, const row_plan& plan, void* scratch,
                     stream_handle stream) {
  if (call.y_type == dtype_of<In>) {
    launch_map_to<lanes, In, In>(call, plan, scratch, stream);
  } else if constexpr (!std::is_same_v<In, arithmetic_t<In>>) {
    launch_map_to<lanes, In, arithmetic_t<In>>(call, plan, scratch, stream);
  }
}

template <int lanes, class In>
void launch_reduction_with(const reduction_call& call, const row_plan& plan, void* scratch,
                           stream_handle stream) {
  using T = arithmetic_t<In>;
  reduction_arguments<In> arguments = arguments_of<In>(call.x, call.scale);
  arguments.result = call.result;
  arguments.kind = call.kind;
  switch (plan.kind) {
    case row_plan_kind::lanes:
      with_vectors(plan.vectors, [&](auto v) {
        launch(stream, reduce_rows_by_lanes<lanes, In, v()>,
               divide_up(call.x.rows * plan.lanes, plan.threads), plan.threads, arguments,
               row_shift(plan));
      });
      return;
    default:
      break;
  }
  if (plan.chunks == 1) {
    launch(stream, reduce_chunk<lanes, In>, call.x.rows, plan.threads, arguments);
    return;
  }
  auto* const parts = static_cast<state<T>*>(scratch);
  arguments.result = nullptr;
  arguments.parts = parts;
  launch_chunk_states<lanes>(arguments, plan, stream);
  launch_finish<lanes>(parts, call.x.rows, plan.chunks, arguments.scale, call.kind, call.result,
                       static_cast<state<T>*>(nullptr), stream);
}

template <class In>
void launch_map(const map_call& call, const row_plan& plan, void* scratch, stream_handle stream,
                int lanes) {
  with_lanes(lanes, [&](auto w) { launch_map_with<w(), In>(call, plan, scratch, stream); });
}

template <class In>
void launch_reduction(const reduction_call& call, const row_plan& plan, void* scratch,
                      stream_handle stream, int lanes) {
  with_lanes(lanes, [&](auto w) { launch_reduction_with<w(), In>(call, plan, scratch, stream); });
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
