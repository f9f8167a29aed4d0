// SPDX-License-Identifier: Apache-2.0
/// \file
/// Keys in chunks: where the states of a row's chunks are, and how they become the row's result.
#pragma once

#include <gpu/contract.hpp>
#include <gpu/executor.hpp>
#include <gpu/group/combine.hpp>
#include <gpu/plan/constants.hpp>
#include <gpu/row/vector_elements.hpp>
#include <gpu/state/exponential.hpp>

#include <core/attention.hpp>
#include <core/real_types.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

using core::arithmetic_t;

/// Keys of a chunk, by what a sequence has itself: many are more work than there are blocks for,
/// and few chunks are less to combine.
struct chunk_length {
  static constexpr int few = 512;
  static constexpr int many = 2048;
  static constexpr std::int64_t most_for_few = 8192;

  SOFTFOLD_HD static int of(std::int64_t keys) { return keys <= most_for_few ? few : many; }
  SOFTFOLD_HD static int chunks_of(std::int64_t keys) {
    const int length = of(keys);
    return static_cast<int>((keys + length - 1) / length);
  }
  /// Chunks of a sequence of at most so many keys.
  static std::int64_t most_chunks(std::int64_t keys) {
    return std::max(chunks_of(std::min(keys, most_for_few)), chunks_of(keys));
  }
};

/// Where the states of chunks are, if there are several.
template <class A>
struct attention_parts {
  max_sum<double>*
      states;           ///< [chunk][row], rows as batches, key heads, tokens, heads of the group
  A* weighted;          ///< [chunk][row][v_dim]
  std::int64_t chunks;  ///< of a sequence, at most
  std::int64_t chunk_keys;  ///< of all chunks; 0: by chunk_length
  std::int64_t blocks;      ///< of rows, for each key head of a batch

  /// Those of them that a sequence has.
  [[nodiscard]] __device__ int chunks_of(const core::attention_problem& p,
                                         const core::attention_sequence& in) const {
    return chunk_keys > 0 ? static_cast<int>(chunks) : chunk_length::chunks_of(in.live_keys(p));
  }
};

/// Which query of which head a row of a key head is. Division of 64 bits is slow.
struct head_and_token {
  std::int64_t head;
  std::int64_t token;

  __device__ static head_and_token of(const core::attention_problem& p, std::int64_t key_head,
                                      std::int64_t row) {
    const std::int64_t group = p.group();
    if (static_cast<std::uint64_t>(row) >> 32 == 0) {
      const auto number = static_cast<std::uint32_t>(row);
      const auto heads = static_cast<std::uint32_t>(group);
      return {key_head * group + number % heads, number / heads};
    }
    return {key_head * group + row % group, row / group};
  }
};

/// Row `row` of those of a key head in a sequence.
template <class A>
__device__ inline core::attention_row<A> row_of(const core::attention_problem& p,
                                                const core::attention_sequence& in,
                                                std::int64_t key_head, std::int64_t row) {
  const auto at = head_and_token::of(p, key_head, row);
  return core::attention_row<A>::of(p, in, at.head, at.token);
}

/// One of the two types that an output has.
template <class In>
__device__ inline void store_value(const tensor_ref& out, std::int64_t at, arithmetic_t<In> value) {
  if (out.type == dtype_of<In>) {
    static_cast<In*>(out.data)[at] = In(value);
  } else {
    static_cast<arithmetic_t<In>*>(out.data)[at] = value;
  }
}

/// What a row's sums become on their way out, by every kernel: a product with the quotient, as
/// division of each would cost more.
template <class A>
struct attention_output {
  bool is_product;  ///< with `factor`; else `value`
  A factor;
  A value;

  __device__ static attention_output of(const core::attention_problem& p,
                                        const core::attention_finish<A>& finish) {
    if (p.folds) {
      const max_sum<A>& s = finish.both.whole;
      return {s.max == s.max && s.sum == s.sum && s.max != infinity<A>, finish.both.first,
              std::numeric_limits<A>::quiet_NaN()};
    }
    return {finish.result.ordinary, finish.both.first / finish.result.sum, finish.result.value};
  }
  [[nodiscard]] __device__ A operator()(A sum) const {
    const A y = factor == A{0} ? A{0} : sum * factor;
    return is_product ? canonical(y) : value;
  }
};

/// `chunks` chunks of `chunk_keys` keys, whose memory is the executor's; at least one.
template <class A>
attention_parts<A> parts_of(executor& on, const core::attention_problem& p, std::int64_t chunks,
                            std::int64_t chunk_keys, int rows_of_block) {
  attention_parts<A> parts{};
  parts.chunks = chunks > 1 ? chunks : 1;
  parts.chunk_keys = chunk_keys;
  parts.blocks = core::attention_sequence::most_blocks(p, rows_of_block);
  if (parts.chunks > 1) {
    const std::int64_t rows = p.rows();
    const std::size_t states =
        static_cast<std::size_t>(parts.chunks * rows) * sizeof(max_sum<double>);
    const std::size_t weighted =
        static_cast<std::size_t>(parts.chunks * rows * p.v.dim) * sizeof(A);
    auto* const memory = static_cast<std::byte*>(on.scratch.at_least(states + weighted));
    parts.states = reinterpret_cast<max_sum<double>*>(memory);
    parts.weighted = reinterpret_cast<A*>(memory + states);
  }
  return parts;
}

/// Chunks of `chunk_keys` keys, or one of all if that is 0.
template <class A>
attention_parts<A> parts_of_keys(executor& on, const core::attention_problem& p,
                                 std::int64_t chunk_keys, int rows_of_block) {
  const std::int64_t keys = p.most_keys() > 0 ? p.most_keys() : 1;
  const std::int64_t own = chunk_keys == 0 ? keys : chunk_keys;
  return parts_of<A>(on, p, divide_up(keys, own), own, rows_of_block);
}

constexpr int combine_threads = 256;

/// Consecutive values of a thread: a vector's, where rows are whole vectors.
template <class A>
inline constexpr int combined_values = vector_width<A>;

template <class A>
struct combine_memory {
  double factors[combine_threads];
  double totals[combine_threads * combined_values<A>];
  double warps[2][combine_threads / 32];
};

/// Where a row is, given its number among batches, key heads, tokens, heads of the group.
struct placed_row {
  std::int64_t batch;
  std::int64_t head;
  std::int64_t token;
  core::attention_sequence in;

  /// Packed sequences may leave tokens out.
  [[nodiscard]] __device__ bool exists() const { return in.queries != 0; }
  __device__ static placed_row of(const core::attention_problem& p, std::int64_t row) {
    const std::int64_t all_rows = p.group() * p.q.tokens;
    const std::int64_t pair = row / all_rows;
    const std::int64_t batch = pair / p.k.heads;
    const auto at = head_and_token::of(p, pair % p.k.heads, row % all_rows);
    return {batch, at.head, at.token, core::attention_sequence::with_token(p, batch, at.token)};
  }
};

/// A chunk's weighted sum of `width` columns, added to a row's.
template <int width, class A, int most>
__device__ inline void add_chunk(const A* from, double factor, double (&weighted)[most]) {
  A values[width];
  if constexpr (width == 1) {
    values[0] = *from;
  } else {
    const block16 vector = load_vector<true>(reinterpret_cast<const block16*>(from));
#pragma unroll
    for (int i = 0; i < width; ++i) {
      values[i] = element_of<A>(vector, i);
    }
  }
#pragma unroll
  for (int i = 0; i < width; ++i) {
    weighted[i] += factor == 0 ? 0.0 : factor * static_cast<double>(values[i]);
  }
}

/// Chunks are added in turn by so many threads, whose sums are added in order.
constexpr int most_shares = 8;

/// The sums over a row's chunks, in one order, of `width` columns from `column` on, which threads
/// with the same column have in turn.
template <int width, class A>
__device__ inline void combine_columns(const attention_parts<A>& parts, int chunks,
                                       std::int64_t row, std::int64_t rows, int v_dim, double top,
                                       int column, int share, int shares, combine_memory<A>& memory,
                                       double& own_sum, double (&weighted)[combined_values<A>]) {
  const auto thread = static_cast<int>(threadIdx.x);
  own_sum = 0;
#pragma unroll
  for (double& each : weighted) {
    each = 0;
  }
  for (std::int64_t begin = 0; begin < chunks; begin += combine_threads) {
    double factor = 0;
    if (begin + thread < chunks) {
      const max_sum<double> s = parts.states[(begin + thread) * rows + row];
      if (s.sum != 0) {
        factor = s.max == top ? 1.0 : exp(s.max - top);
        own_sum += s.sum * factor;
      }
    }
    __syncthreads();
    memory.factors[thread] = factor;
    __syncthreads();
    const std::int64_t left = chunks - begin;
    const int count = left < combine_threads ? static_cast<int>(left) : combine_threads;
    if (column >= v_dim || share >= shares) {
      continue;
    }
    const A* const from = parts.weighted + (begin * rows + row) * v_dim + column;
    const int turns = share < count ? (count - share + shares - 1) / shares : 0;
    for (int turn = 0; turn < turns; ++turn) {
      const int c = share + turn * shares;
      add_chunk<width>(from + c * rows * v_dim, memory.factors[c], weighted);
    }
  }
}

/// What 32 lanes have alike of all threads' values, in one; a barrier.
template <class Combined>
__device__ inline double over_warps(double (&values)[combine_threads / 32], double own,
                                    const Combined& combined) {
  values[threadIdx.x / 32] = own;
  __syncthreads();
  double whole = values[0];
  for (int i = 1; i < combine_threads / 32; ++i) {
    whole = combined(whole, values[i]);
  }
  return whole;
}

/// A row's chunks, by a block: as many threads as the values need, rounded up to a power of 2, have
/// a share of the chunks together.
template <class In>
__global__ void __launch_bounds__(combine_threads)
    attention_combine_chunks(const core::attention_problem p,
                             const attention_parts<arithmetic_t<In>> parts) {
  using A = arithmetic_t<In>;
  constexpr int most_width = combined_values<A>;
  __shared__ combine_memory<A> memory;
  const auto thread = static_cast<int>(threadIdx.x);
  const std::int64_t row = blockIdx.x;
  const std::int64_t rows = gridDim.x;
  const auto at = placed_row::of(p, row);
  if (!at.exists()) {
    return;
  }
  const int chunks = parts.chunks_of(p, at.in);
  const int v_dim = static_cast<int>(p.v.dim);
  const int width = v_dim % most_width == 0 ? most_width : 1;
  int columns = 1;  // that threads have at a time, in widths
  while (columns * width < v_dim && columns < combine_threads) {
    columns *= 2;
  }
  const int share = thread / columns;
  const int shares =
      combine_threads / columns < most_shares ? combine_threads / columns : most_shares;
  wait_for_launch_before();

  double own_top = -infinity<double>;
  for (std::int64_t c = thread; c < chunks; c += combine_threads) {
    const double max = parts.states[c * rows + row].max;
    own_top = max > own_top ? max : own_top;
  }
  own_top = max_over_lanes(own_top, 32);
  const double top =
      over_warps(memory.warps[0], own_top, [](double a, double b) { return a > b ? a : b; });

  const std::int64_t to = core::offset_of(p.out, at.batch, at.head, at.token);
  for (int first = 0; first < v_dim; first += columns * width) {
    const int column = first + thread % columns * width;
    double own_sum = 0;
    double weighted[most_width];
    width == 1 ? combine_columns<1>(parts, chunks, row, rows, v_dim, top, column, share, shares,
                                    memory, own_sum, weighted)
               : combine_columns<most_width>(parts, chunks, row, rows, v_dim, top, column, share,
                                             shares, memory, own_sum, weighted);
#pragma unroll
    for (int i = 0; i < most_width; ++i) {
      memory.totals[thread * most_width + i] = weighted[i];
    }
    // The barrier in it is for the totals, too.
    const double sum = over_warps(memory.warps[1], sum_over_lanes(own_sum, 32),
                                  [](double a, double b) { return a + b; });
    const auto finish = core::attention_finish<A>::of(
        p, at.head, core::public_state(static_cast<A>(top), static_cast<A>(sum)));
    const auto output = attention_output<A>::of(p, finish);
    if (first == 0 && thread == 0) {
      core::write_attention_state(p, at.batch, at.head, at.token, finish.both.whole);
    }
    for (int i = thread; i < columns * width && first + i < v_dim; i += combine_threads) {
      const int place = i / width * most_width + i % width;
      double whole = memory.totals[place];
      for (int s = 1; s < shares; ++s) {
        whole += memory.totals[place + s * columns * most_width];
      }
      store_value<In>(p.out, to + first + i, output(static_cast<A>(whole)));
    }
  }
}

/// The most chunks that lanes of a row have one each of, and the columns that such rows have.
constexpr int few_chunks = 16;
template <class A>
SOFTFOLD_HD inline bool has_few_chunks(const core::attention_problem& p,
                                       const attention_parts<A>& parts) {
  return parts.chunks <= few_chunks && p.v.dim % combined_values<A> == 0 &&
         p.v.dim > few_chunks / 2 * combined_values<A> &&
         p.v.dim <= combine_threads / most_shares * combined_values<A>;
}
/// Threads that have such a row, 16 or 32.
template <class A>
SOFTFOLD_HD inline int lanes_of_few(const core::attention_problem& p) {
  return p.v.dim <= few_chunks * combined_values<A> ? few_chunks : 2 * few_chunks;
}

/// Rows of few chunks, a row by lanes_of_few threads. The same bits as by attention_combine_chunks,
/// which adds in the same order.
template <class In>
__global__ void __launch_bounds__(combine_threads)
    attention_combine_few(const core::attention_problem p,
                          const attention_parts<arithmetic_t<In>> parts) {
  const int each = lanes_of_few<arithmetic_t<In>>(p);
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % each;
  const std::int64_t rows = p.rows();
  const std::int64_t own_row = std::int64_t{blockIdx.x} * (combine_threads / each) + thread / each;
  const std::int64_t row = own_row < rows ? own_row : rows - 1;
  using A = arithmetic_t<In>;
  constexpr int width = combined_values<A>;
  const auto at = placed_row::of(p, row);
  const int chunks = at.exists() ? parts.chunks_of(p, at.in) : 0;
  const int v_dim = static_cast<int>(p.v.dim);
  const int column = lane * width;
  const int chunk = lane % few_chunks;
  wait_for_launch_before();
  max_sum<double> s{-infinity<double>, 0};
  if (chunk < chunks) {
    s = parts.states[chunk * rows + row];
  }
  const double top = max_over_lanes(s.max, few_chunks);
  const double factor = s.sum == 0 ? 0.0 : s.max == top ? 1.0 : exp(s.max - top);
  const double sum = sum_over_lanes(s.sum == 0 ? 0.0 : s.sum * factor, few_chunks);
  double weighted[width] = {};
  const A* const from = parts.weighted + row * v_dim + (column < v_dim ? column : 0);
#pragma unroll
  for (int share = 0; share < most_shares; ++share) {
    double own[width] = {};
#pragma unroll
    for (int turn = 0; turn < few_chunks / most_shares; ++turn) {
      const int c = share + turn * most_shares;
      const double of_chunk = shuffle_xor(factor, chunk ^ c);
      if (c < chunks) {
        add_chunk<width>(from + c * rows * v_dim, of_chunk, own);
      }
    }
#pragma unroll
    for (int i = 0; i < width; ++i) {
      weighted[i] = share == 0 ? own[i] : weighted[i] + own[i];
    }
  }
  if (own_row >= rows || !at.exists() || column >= v_dim) {
    return;
  }
  const auto finish = core::attention_finish<A>::of(
      p, at.head, core::public_state(static_cast<A>(top), static_cast<A>(sum)));
  const auto output = attention_output<A>::of(p, finish);
  if (column == 0) {
    core::write_attention_state(p, at.batch, at.head, at.token, finish.both.whole);
  }
  const std::int64_t to = core::offset_of(p.out, at.batch, at.head, at.token) + column;
#pragma unroll
  for (int i = 0; i < width; ++i) {
    store_value<In>(p.out, to + i, output(static_cast<A>(weighted[i])));
  }
}

/// After the chunks' kernel, if there are several.
template <class In>
void combine_chunks(executor& on, const core::attention_problem& p,
                    const attention_parts<arithmetic_t<In>>& parts) {
  if (parts.chunks == 1) {
    return;
  }
  if (has_few_chunks(p, parts)) {
    launch_next(on.stream, attention_combine_few<In>,
                divide_up(p.rows(), combine_threads / lanes_of_few<arithmetic_t<In>>(p)),
                combine_threads, 0, p, parts);
  } else {
    launch_next(on.stream, attention_combine_chunks<In>, p.rows(), combine_threads, 0, p, parts);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
