// SPDX-License-Identifier: Apache-2.0
/// \file
/// The kernels of softmax and log-softmax, and of normalize.
#pragma once

#include "calls.hpp"
#include "fold_tile.hpp"

#include <softfold/max_sum.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

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
  T max;             ///< finite for an ordinary row; else it says of what kind the row is
  T sum;             ///< for log-softmax its logarithm
  bool far = false;  ///< a given maximum that each product of scale and element is rounded like

  template <map_operation op>
  __device__ static row_result of(const state<T>& s, T scale) {
    return {frame<T>::of(s.max, scale), s.max, sum_for<op>(s.sum)};
  }
  template <map_operation op>
  __device__ static row_result of(const max_sum<T>& given, T scale) {
    const bool empty = given.max == -infinity<T> || given.sum <= 0;
    const T max = given.sum != given.sum ? given.sum : empty ? -infinity<T> : given.max;
    return {{scale, given.max, T{1}}, max, sum_for<op>(given.sum), is_far(max)};
  }

 private:
  template <map_operation op>
  __device__ static T sum_for(T sum) {
    return op == map_operation::log_softmax ? log(sum) : sum;
  }
};

/// Calls body with the function from an element to its result, and whether it is the quick one for
/// ordinary rows. All others share the other one: a kernel's warps wait for instructions if it has
/// several times as many as the caches of a multiprocessor take. It gives some number where the
/// row's maximum is not finite.
template <map_operation op, class Out, class T, class Body>
__device__ inline void with_value(const row_result<T>& row, const Body& body) {
  constexpr bool log_of = op == map_operation::log_softmax;
  const frame<T>& f = row.whole;
  const T factor = 1 / row.sum;
  const auto result = [&](T t) {
    return log_of ? t - row.sum : exponential<precision::exact>(t) * factor;
  };
  const bool is_ordinary = isfinite(row.max) && !row.far;
  if constexpr (!log_of && precision_for<Out> == precision::fast && sizeof(T) == 4) {
    if (is_ordinary && binary_exponential::is_right_for(f)) {
      const binary_exponential exponential(f);
      const T both = exponential.factor * factor;
      body([&](T x) { return exponential(x) * both; }, std::true_type());
      return;
    }
  } else if (is_ordinary) {
    body([&](T x) { return result(f.exponent(x)); }, std::true_type());
    return;
  }
  body([&](T x) { return result(row.far ? x * f.a - f.b : f.exponent(x)); }, std::false_type());
}

/// What each element becomes in a row whose maximum is not finite.
template <class In, class Out>
__device__ inline Out value_without_sum(const map_arguments<In, Out>& call, arithmetic_t<In> max) {
  return max == -infinity<arithmetic_t<In>> ? call.empty : canonical_nan<Out>();
}

/// Writes a thread's tile of a row, to global memory if `once`. If `kept`, of the tile's
/// exponentials, which are in the frame of the maximum `local`: the elements take no registers
/// then.
template <map_operation op, bool kept, bool once = true, class In, class Out, int V, bool plain>
__device__ inline void write_tile(const tile<In, V, plain>& tile, Out* to,
                                  const map_arguments<In, Out>& call,
                                  const row_result<arithmetic_t<In>>& row, arithmetic_t<In> local) {
  using T = arithmetic_t<In>;
  const bool is_number = isfinite(row.max);
  const block16 without_sum = repeated(value_without_sum(call, row.max));
  if constexpr (kept) {
    if (is_number) {
      const T factor =
          tile.kept_factor() * state<T>{local, 0}.factor(row.max, call.scale) / row.sum;
      tile.template store<once>(to, [&](int j, int part) {
        return tile.template values<true, Out>(j, part, [&](T e) { return e * factor; });
      });
    } else {
      tile.template store<once>(to, [&](int, int) { return without_sum; });
    }
  } else {
    with_value<op, Out>(row, [&](const auto& value, auto is_quick) {
      tile.template store<once>(to, [&](int j, int part) {
        const block16 values = tile.template values<false, Out>(j, part, value);
        return is_quick() || is_number ? values : without_sum;
      });
    });
  }
}

/// Asks for what is read when the calling block, which has the vectors at `from` of row `row`, has
/// gone. To be called between a block's last read and its first write, when it would have nothing
/// under way. Earlier, or for more rows than the device holds at once, the cache would lose lines
/// before they are read.
template <class In, class Out>
__device__ inline void prefetch_successor(const In* from, int vectors, std::int64_t row,
                                          int blocks_of_row, const map_arguments<In, Out>& call) {
  if constexpr (prefetches) {
    constexpr int threads_at_once = 1024;  // of a multiprocessor, by their registers
    constexpr int line = 128 / 16;
    const int blocks = multiprocessors() * threads_at_once / static_cast<int>(blockDim.x);
    const std::int64_t ahead = blocks / blocks_of_row;
    const int first = static_cast<int>(threadIdx.x) * line;
    if (row + ahead < call.rows && first < vectors) {
      prefetch_line(from + ahead * call.x_stride + first * vector_width<In>);
    }
  }
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

/// Longer rows have few sectors that are not whole: shared memory takes more time than they do.
inline constexpr std::size_t most_staged_bytes = 1024;

/// How rows by lanes of a warp are read and written.
enum class row_ends {
  any,
  plain,  ///< without masks, see tile
  /// The rows of y follow each other without gaps, but are no whole sectors: a block's rows are put
  /// together in shared memory, because a store of a part of a sector takes the L2 cache as long as
  /// one of all of it.
  staged
};

/// Rows by lanes of a warp.
template <int lanes, map_operation op, row_ends ends, class In, class Out, int V>
__global__ void __launch_bounds__(256)
    map_rows_by_lanes(const map_arguments<In, Out> call, int row_shift) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  using T = arithmetic_t<In>;
  constexpr bool staged = ends == row_ends::staged;
  constexpr bool plain = ends == row_ends::plain;
  constexpr bool keep = tile<In, V>::keeps && op == map_operation::softmax;
  const int row_lanes = 1 << row_shift;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t row = thread >> row_shift;
  const bool exists = row < call.rows;
  const In* const x = call.x + (exists ? row * call.x_stride : 0);
  const vector_range<In> range(x, exists ? static_cast<int>(call.cols) : 0, call.memory,
                               plain ? known_to_be_aligned : vector_bytes);
  tile<In, V, plain> own(range, static_cast<int>(threadIdx.x) & (row_lanes - 1), row_lanes);
  own.load();
  own.apply(call.map);

  auto* const stage = reinterpret_cast<block16*>(dynamic_shared_memory());
  Out* const first = call.y + ((thread - threadIdx.x) >> row_shift) * call.y_stride;
  Out* to = call.y + row * call.y_stride - range.head;
  if constexpr (staged) {
    const auto skew = reinterpret_cast<std::uintptr_t>(first) % 16 / sizeof(Out);
    to = reinterpret_cast<Out*>(stage) + skew + (to - first);
  }
  const auto given = [&] { return row_result<T>::template of<op>(call.given[row], call.scale); };
  if (keep && call.given != nullptr) {
    if (exists) {
      write_tile<op, false, !staged>(own, to, call, given(), T{0});
    }
  } else {
    row_result<T> result{};
    T local = 0;
    if (keep || call.given == nullptr) {
      const state<T> whole = fold_tile<lanes, precision_for<Out>, keep>(own, call.scale, row_lanes);
      result = row_result<T>::template of<op>(whole, call.scale);
      local = whole.max;
    } else if (exists) {
      result = given();
    }
    if (exists) {
      write_tile<op, keep, !staged>(own, to, call, result, local);
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
template <int lanes, map_operation op, bool plain, class In, class Out, int V>
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
                               call.memory, plain ? known_to_be_aligned : sector_bytes);
  tile<In, V, plain> own(range, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  own.load_long();
  own.apply(call.map);
  const state<T> warp = fold_part<lanes, precision_for<Out>, keep>(own, call.scale);
  const state<T> whole = combine_over_block<lanes, sizeof(In) <= 4>(warp, call.scale, memory);
  prefetch_successor(range.base, range.size(), row, 1, call);
  write_tile<op, keep>(own, call.y + row * call.y_stride - range.head, call,
                       row_result<T>::template of<op>(whole, call.scale), warp.max);
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
          ? row_result<T>::template of<op>(call.given[row], call.scale)
          : row_result<T>::template of<op>(combine_states<lanes>(call.parts + row * call.part_count,
                                                                 call.part_count, call.scale),
                                           call.scale);
  write_tile<op, false>(own, call.y + row * call.y_stride + (range.base - x), call, result, T{0});
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
