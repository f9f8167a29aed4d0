// SPDX-License-Identifier: Apache-2.0
/// \file
/// The kernels of softmax, log-softmax, logsumexp, fold and normalize, and their launches.
#pragma once

#include "calls.hpp"
#include "launch.hpp"
#include "reduce.hpp"
#include "tile.hpp"

#include <softfold/max_sum.hpp>

#include <bit>
#include <limits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

enum class map_operation { softmax, log_softmax };

/// The arguments of a map kernel.
template <class In, class Out>
struct map_arguments {
  using T = arithmetic_t<In>;

  const In* x;
  readable_memory<In> memory;  ///< of all rows
  Out* y;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t x_stride;
  std::int64_t y_stride;
  T scale;
  element_map map;
  Out empty;                ///< what an empty row is filled with
  const max_sum<T>* given;  ///< the rows' public states, or null
  const state<T>* parts;    ///< the states of each row's chunks, or null
  int part_count;           ///< of each row
  int chunks;               ///< of each row
};

template <class In>
struct reduction_arguments {
  using T = arithmetic_t<In>;

  const In* x;
  readable_memory<In> memory;  ///< of all rows
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t x_stride;
  T scale;
  element_map map;
  int chunks;    ///< of each row
  void* result;  ///< one for each row, or null
  result_kind kind;
  state<T>* parts;  ///< where the chunks' states go, if there is no result
};

template <class Out>
inline constexpr precision precision_for = sizeof(Out) == 2 ? precision::fast : precision::exact;

template <class Out>
__device__ inline Out canonical_nan() {
  return Out(std::numeric_limits<arithmetic_t<Out>>::quiet_NaN());
}

/// What the second pass over a row needs.
template <class T>
struct row_result {
  frame<T> whole;
  T max;  ///< finite for an ordinary row; else it says of what kind the row is
  T sum;
  bool far = false;  ///< a given maximum that each product of scale and element is rounded like

  __device__ static row_result of(const state<T>& s, T scale) {
    return {frame<T>::of(s.max, scale), s.max, s.sum};
  }
  __device__ static row_result of(const max_sum<T>& given, T scale) {
    const bool empty = given.max == -infinity<T> || given.sum <= 0;
    const T max = given.sum != given.sum ? given.sum : empty ? -infinity<T> : given.max;
    return {{scale, given.max, T{1}}, max, given.sum, is_far(max)};
  }
};

/// Calls body with the function from an element to its result, for a row whose maximum is finite.
template <map_operation op, class Out, class T, class Body>
__device__ inline void with_value(const row_result<T>& row, const Body& body) {
  if (row.far) {
    const frame<T>& f = row.whole;
    const T log_sum = log(row.sum);
    body([&](T x) {
      const T t = x * f.a - f.b;
      return op == map_operation::log_softmax ? t - log_sum
                                              : exponential<precision::exact>(t) / row.sum;
    });
    return;
  }
  if constexpr (op == map_operation::log_softmax) {
    const T log_sum = log(row.sum);
    body([&](T x) { return row.whole.exponent(x) - log_sum; });
  } else {
    with_exponential<precision_for<Out>>(row.whole, [&](const auto& exponential) {
      const T factor = exponential.factor / row.sum;
      body([&](T x) { return exponential(x) * factor; });
    });
  }
}

/// What each element becomes in a row whose maximum is not finite.
template <class In, class Out>
__device__ inline Out value_without_sum(const map_arguments<In, Out>& call, arithmetic_t<In> max) {
  return max == -infinity<arithmetic_t<In>> ? call.empty : canonical_nan<Out>();
}

/// Writes a thread's tile of a row, to global memory if `once`. `local`: the maximum whose frame
/// the kept exponentials have.
template <map_operation op, bool kept, bool once = true, class In, class Out, int V>
__device__ inline void write_tile(const tile<In, V>& tile, Out* to,
                                  const map_arguments<In, Out>& call,
                                  const row_result<arithmetic_t<In>>& row, arithmetic_t<In> local) {
  using T = arithmetic_t<In>;
  if (!isfinite(row.max)) {
    tile.fill(to, value_without_sum(call, row.max));
    return;
  }
  if constexpr (kept) {
    if (!row.far) {
      const T factor =
          tile.kept_factor() * state<T>{local, 0}.factor(row.max, call.scale) / row.sum;
      tile.template store<true, once>(to, [&](T e) { return e * factor; });
      return;
    }
  }
  with_value<op, Out>(row, [&](const auto& value) { tile.template store<false, once>(to, value); });
}

/// Asks for what is read when the calling block, which has `range` of row `row`, has gone. To be
/// called between a block's last read and its first write, when it would have nothing under way.
/// Earlier, or for more rows than the device holds at once, the cache would lose lines before they
/// are read: up to a third slower, measured.
template <class In, class Out>
__device__ inline void prefetch_successor(const vector_range<In>& range, std::int64_t row,
                                          int blocks_of_row, const map_arguments<In, Out>& call) {
  if constexpr (prefetches) {
    constexpr int threads_at_once = 1024;  // of a multiprocessor, by their registers
    constexpr int line = 128 / 16;
    const int blocks = multiprocessors() * threads_at_once / static_cast<int>(blockDim.x);
    const std::int64_t ahead = blocks / blocks_of_row;
    const int first = static_cast<int>(threadIdx.x) * line;
    if (row + ahead < call.rows && first < range.size()) {
      prefetch_line(range.base + ahead * call.x_stride + first * vector_range<In>::width);
    }
  }
}

/// The state of the tiles of `count` lanes, whose own elements' maximum is `largest`; if `keep`,
/// the tiles keep their exponentials, of precision p. `skips`: see tile::sum.
template <int lanes, precision p, bool keep, bool skips = false, class In, int V>
__device__ inline state<arithmetic_t<In>> fold_tile(tile<In, V>& own, arithmetic_t<In> scale,
                                                    int count, arithmetic_t<In> largest) {
  const auto max = max_over_lanes(largest, count);
  own.next_pass();
  const auto f = frame<arithmetic_t<In>>::of(max, scale);
  constexpr precision used = keep ? p : precision::fast;
  const auto sum = sum_over_lanes(own.template sum<used, keep, skips>(f), count);
  own.next_pass();
  return {max, sum};
}

/// The same of a part of a long row, of which many warps have less than their lanes could hold.
template <int lanes, precision p, bool keep, class In, int V>
__device__ inline state<arithmetic_t<In>> fold_part(tile<In, V>& own, arithmetic_t<In> scale) {
  return fold_tile<lanes, p, keep, true>(own, scale, lanes, own.max());
}

template <int lanes, precision p, bool keep, class In, int V>
__device__ inline state<arithmetic_t<In>> fold_tile(tile<In, V>& own, arithmetic_t<In> scale,
                                                    int count) {
  return fold_tile<lanes, p, keep>(own, scale, count, own.max());
}

/// Writes elements [0, n) of the shared `from`, whose first corresponds to `to`, by all threads of
/// the block; both lie alike modulo 16 bytes.
template <class Out>
__device__ inline void write_staged(Out* to, const block16* from, int n) {
  constexpr int each = vector_width<Out>;
  const int head = static_cast<int>(reinterpret_cast<std::uintptr_t>(to) % 16 / sizeof(Out));
  auto* const base = reinterpret_cast<block16*>(to - head);
  for (int v = static_cast<int>(threadIdx.x); v * each < head + n;
       v += static_cast<int>(blockDim.x)) {
    const int from_element = head - v * each;
    const int until = head + n - v * each;
    if (from_element <= 0 && until >= each) {
      store_vector(base + v, from[v]);
    } else {
      store_elements(reinterpret_cast<Out*>(base + v), from[v], from_element, until);
    }
  }
}

/// Rows by lanes of a warp. `staged`: the rows of y follow each other without gaps, but are no
/// whole sectors; a block's rows are put together in shared memory, because a store of a part of a
/// sector takes the L2 cache as long as one of all of it.
template <int lanes, map_operation op, bool staged, class In, class Out, int V>
__global__ void __launch_bounds__(256)
    map_rows_by_lanes(const map_arguments<In, Out> call, int row_shift) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using T = arithmetic_t<In>;
  constexpr bool keep = tile<In, V>::keeps && op == map_operation::softmax;
  const int row_lanes = 1 << row_shift;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t row = thread >> row_shift;
  const bool exists = row < call.rows;
  const In* const x = call.x + (exists ? row * call.x_stride : 0);
  const vector_range<In> range(x, exists ? static_cast<int>(call.cols) : 0, call.memory);
  tile<In, V> own(range, static_cast<int>(threadIdx.x) & (row_lanes - 1), row_lanes);
  own.load();
  own.apply(call.map);

  auto* const stage = reinterpret_cast<block16*>(dynamic_shared_memory());
  Out* const first = call.y + ((thread - threadIdx.x) >> row_shift) * call.y_stride;
  Out* to = call.y + row * call.y_stride - range.head;
  if constexpr (staged) {
    const auto skew = reinterpret_cast<std::uintptr_t>(first) % 16 / sizeof(Out);
    to = reinterpret_cast<Out*>(stage) + skew + (to - first);
  }
  if (call.given != nullptr) {
    if (exists) {
      write_tile<op, false, !staged>(own, to, call, row_result<T>::of(call.given[row], call.scale),
                                     T{0});
    }
  } else {
    const state<T> whole = fold_tile<lanes, precision_for<Out>, keep>(own, call.scale, row_lanes);
    if (exists) {
      write_tile<op, keep, !staged>(own, to, call, row_result<T>::of(whole, call.scale), whole.max);
    }
  }
  if constexpr (staged) {
    __syncthreads();
    const std::int64_t rest = call.rows * call.cols - (first - call.y);
    const int n = static_cast<int>(blockDim.x >> row_shift) * static_cast<int>(call.cols);
    write_staged(first, stage, rest < n ? static_cast<int>(rest) : n);
  }
}

/// A row by a block.
template <int lanes, map_operation op, class In, class Out, int V>
__global__ void __launch_bounds__(row_threads, least_resident(sizeof(In) == 8 ? 1 : 2))
    map_row_by_block(const map_arguments<In, Out> call) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using T = arithmetic_t<In>;
  constexpr bool keep = tile<In, V>::keeps && op == map_operation::softmax;
  __shared__ fold_memory<T> memory;
  const std::int64_t row = blockIdx.x;
  const vector_range<In> range(call.x + row * call.x_stride, static_cast<int>(call.cols),
                               call.memory, sector_bytes);
  tile<In, V> own(range, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  own.load_long();
  own.apply(call.map);
  const state<T> warp = fold_part<lanes, precision_for<Out>, keep>(own, call.scale);
  const state<T> whole = combine_over_block<lanes>(warp, call.scale, memory);
  prefetch_successor(range, row, 1, call);
  write_tile<op, keep>(own, call.y + row * call.y_stride - range.head, call,
                       row_result<T>::of(whole, call.scale), warp.max);
}

/// A chunk of a row whose state, or whose chunks' states, are known.
template <int lanes, map_operation op, class In, class Out, int V>
__global__ void __launch_bounds__(chunk_threads) map_chunk(const map_arguments<In, Out> call) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using T = arithmetic_t<In>;
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(call.chunks);
  const std::int64_t chunk = blockIdx.x % static_cast<unsigned>(call.chunks);
  const In* const x = call.x + row * call.x_stride;
  const vector_range<In> range(x, call.cols, call.memory, chunk * chunk_vectors, chunk_vectors);
  tile<In, V> own(range, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  own.load_long();
  own.apply(call.map);
  const row_result<T> result =
      call.given != nullptr
          ? row_result<T>::of(call.given[row], call.scale)
          : row_result<T>::of(combine_states<lanes>(call.parts + row * call.part_count,
                                                    call.part_count, call.scale),
                              call.scale);
  write_tile<op, false>(own, call.y + row * call.y_stride + (range.base - x), call, result, T{0});
}

/// One row's result, from its state.
template <class T>
__device__ inline void write_result(const state<T>& s, T scale, result_kind kind, void* results,
                                    std::int64_t row) {
  switch (kind) {
    case result_kind::partial:
      static_cast<max_sum<T>*>(results)[row] = to_public(s, scale);
      return;
    case result_kind::lse_f64:
      static_cast<double*>(results)[row] = canonical(static_cast<double>(logsumexp(s, scale)));
      return;
    default:
      break;
  }
  const float lse = canonical(static_cast<float>(logsumexp(s, scale)));
  if (kind == result_kind::lse_f32) {
    static_cast<float*>(results)[row] = lse;
  } else if (kind == result_kind::lse_f16) {
    static_cast<half*>(results)[row] = half(lse);
  } else {
    static_cast<bfloat16*>(results)[row] = bfloat16(lse);
  }
}

template <int lanes, class In, int V>
__global__ void __launch_bounds__(256)
    reduce_rows_by_lanes(const reduction_arguments<In> call, int row_shift) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  const int row_lanes = 1 << row_shift;
  using T = arithmetic_t<In>;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t row = thread >> row_shift;
  const bool exists = row < call.rows;
  const vector_range<In> range(call.x + (exists ? row * call.x_stride : 0),
                               exists ? static_cast<int>(call.cols) : 0, call.memory);
  const int lane = static_cast<int>(threadIdx.x) & (row_lanes - 1);
  tile<In, V> own(range, lane, row_lanes);
  own.template load<true>();
  own.apply(call.map);
  const state<T> whole = fold_tile<lanes, precision::fast, false>(own, call.scale, row_lanes);
  if (exists && lane == 0) {
    write_result(whole, call.scale, call.kind, call.result, row);
  }
}

/// A row, or a chunk of one.
template <int lanes, class In>
__global__ void __launch_bounds__(chunk_threads) reduce_chunk(const reduction_arguments<In> call) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using T = arithmetic_t<In>;
  __shared__ fold_memory<T> memory;
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(call.chunks);
  const std::int64_t chunk = blockIdx.x % static_cast<unsigned>(call.chunks);
  const int vectors = static_cast<int>(blockDim.x) * chunk_vectors_each;
  const vector_range<In> range(call.x + row * call.x_stride, call.cols, call.memory,
                               chunk * vectors, vectors);
  tile<In, chunk_vectors_each> own(range, static_cast<int>(threadIdx.x),
                                   static_cast<int>(blockDim.x));
  own.template load_long<true>();
  own.apply(call.map);
  const state<T> whole = combine_over_block<lanes>(
      fold_part<lanes, precision::fast, false>(own, call.scale), call.scale, memory);
  if (threadIdx.x == 0) {
    if (call.result != nullptr) {
      write_result(whole, call.scale, call.kind, call.result, row);
    } else {
      call.parts[blockIdx.x] = whole;
    }
  }
}

/// The states of rows from those of their chunks, by a warp each: results, or the states
/// themselves.
template <int lanes, class T>
__global__ void __launch_bounds__(256)
    finish_rows(const state<T>* parts, std::int64_t rows, int part_count, T scale, result_kind kind,
                void* results, state<T>* states) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  const std::int64_t row = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / lanes;
  if (row >= rows) {  // the whole warp
    return;
  }
  const state<T> whole = combine_states<lanes>(parts + row * part_count, part_count, scale);
  if (threadIdx.x % lanes == 0) {
    if (states != nullptr) {
      states[row] = whole;
    } else {
      write_result(whole, scale, kind, results, row);
    }
  }
}

/// The same of rows of many chunks, by a block each.
template <int lanes, class T>
__global__ void __launch_bounds__(512)
    finish_long_rows(const state<T>* parts, int part_count, T scale, result_kind kind,
                     void* results, state<T>* states) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  __shared__ chunk_memory<T> memory;
  const std::int64_t row = blockIdx.x;
  const state<T> whole = combine_chunks<lanes>(parts + row * part_count, part_count, scale, memory);
  if (threadIdx.x == 0) {
    if (states != nullptr) {
      states[row] = whole;
    } else {
      write_result(whole, scale, kind, results, row);
    }
  }
}

// Launches.

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
    launch(stream, finish_long_rows<lanes, T>, rows, 512, parts, count, scale, kind, results,
           states);
    return;
  }
  launch(stream, finish_rows<lanes, T>, divide_up(rows * lanes, 256), 256, parts, rows, count,
         scale, kind, results, states);
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
          if (call.y_stride == call.x.cols && row_bytes % sector_bytes != 0) {
            launch_shared(stream, map_rows_by_lanes<lanes, op, true, In, Out, v()>, blocks,
                          plan.threads,
                          static_cast<std::size_t>(plan.threads / plan.lanes) * row_bytes + 32,
                          arguments, row_shift(plan));
            return;
          }
        }
        launch(stream, map_rows_by_lanes<lanes, op, false, In, Out, v()>, blocks, plan.threads,
               arguments, row_shift(plan));
      });
      return;
    case row_plan_kind::block:
      if (plan.vectors == 4) {
        launch(stream, map_row_by_block<lanes, op, In, Out, 4>, call.x.rows, plan.threads,
               arguments);
      } else {
        launch(stream, map_row_by_block<lanes, op, In, Out, 8>, call.x.rows, plan.threads,
               arguments);
      }
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
