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
  static constexpr int least = 512;
  static constexpr int most = 2048;
  static constexpr int chunks_of_shorter = 16;  ///< at most, of sequences with less than the most

  SOFTFOLD_HD static int of(std::int64_t keys) {
    int length = least;
    while (length < most && keys > std::int64_t{length} * chunks_of_shorter) {
      length *= 2;
    }
    return length;
  }
  SOFTFOLD_HD static int chunks_of(std::int64_t keys) {
    const int length = of(keys);
    return static_cast<int>((keys + length - 1) / length);
  }
  /// Chunks of a sequence of at most so many keys.
  static std::int64_t most_chunks(std::int64_t keys) {
    constexpr std::int64_t of_least = std::int64_t{least} * chunks_of_shorter;
    return std::max(chunks_of(std::min(keys, of_least)), chunks_of(keys));
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

  /// Blocks of rows of all key heads, each with each chunk.
  [[nodiscard]] SOFTFOLD_HD std::int64_t units(const core::attention_problem& p) const {
    return p.q.batches * p.k.heads * blocks * chunks;
  }
  /// The chunks that a sequence has.
  [[nodiscard]] __device__ int chunks_of(const core::attention_problem& p,
                                         const core::attention_sequence& in) const {
    return chunk_keys > 0 ? static_cast<int>(chunks) : chunk_length::chunks_of(in.live_keys(p));
  }
};

/// a / b and what is left, as numbers of type T. Division of 64 bits is slow.
template <class T>
struct division {
  std::int64_t quotient;
  std::int64_t rest;

  __device__ static division of(std::int64_t a, std::int64_t b) {
    return {static_cast<T>(a) / static_cast<T>(b), static_cast<T>(a) % static_cast<T>(b)};
  }
};

/// Which query of which head a row of a key head is.
struct head_and_token {
  std::int64_t head;
  std::int64_t token;

  __device__ static head_and_token of(const core::attention_problem& p, std::int64_t key_head,
                                      std::int64_t row) {
    if (static_cast<std::uint64_t>(row) >> 32 == 0) {
      const auto by_group = division<std::uint32_t>::of(row, p.group);
      return {key_head * p.group + by_group.rest, by_group.quotient};
    }
    const auto by_group = division<std::int64_t>::of(row, p.group);
    return {key_head * p.group + by_group.rest, by_group.quotient};
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
constexpr int combine_few_threads = 64;  ///< of two rows: few rows are for many multiprocessors

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
    return p.rows() >> 31 == 0 ? by<std::uint32_t>(p, row) : by<std::int64_t>(p, row);
  }

 private:
  template <class T>
  __device__ static placed_row by(const core::attention_problem& p, std::int64_t row) {
    const auto pair = division<T>::of(row, p.group * p.q.tokens);
    const auto batch = division<T>::of(pair.quotient, p.k.heads);
    const auto at = head_and_token::of(p, batch.rest, pair.rest);
    return {batch.quotient, at.head, at.token,
            core::attention_sequence::with_token(p, batch.quotient, at.token)};
  }
};

/// `width` columns of a chunk's weighted sums.
template <int width, class A>
struct chunk_columns {
  A values[width];

  __device__ static chunk_columns of(const A* from) {
    chunk_columns c{};
    if constexpr (width == 1) {
      c.values[0] = *from;
    } else {
      const block16 vector = load_vector<true>(reinterpret_cast<const block16*>(from));
#pragma unroll
      for (int i = 0; i < width; ++i) {
        c.values[i] = element_of<A>(vector, i);
      }
    }
    return c;
  }
  /// To a row's.
  template <int most>
  __device__ void add_to(double (&weighted)[most], double factor) const {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      weighted[i] += factor == 0 ? 0.0 : factor * static_cast<double>(values[i]);
    }
  }
};

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
    constexpr int ahead = 4;  // loads that are under way together
    const std::int64_t step = shares * rows * v_dim;
    const A* next = from + share * rows * v_dim;
    for (int first = share; first < count; first += ahead * shares) {
      chunk_columns<width, A> columns[ahead];
#pragma unroll
      for (int i = 0; i < ahead; ++i) {
        columns[i] = chunk_columns<width, A>::of(next);
        next += first + (i + 1) * shares < count ? step : 0;
      }
#pragma unroll
      for (int i = 0; i < ahead; ++i) {
        const int c = first + i * shares;
        columns[i].add_to(weighted, c < count ? memory.factors[c] : 0.0);
      }
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

/// The most chunks and the most columns of rows that a warp has, of which each lane has one chunk's
/// state and a vector's columns.
constexpr int few_chunks = 32;
template <class A>
SOFTFOLD_HD inline bool has_few_chunks(const core::attention_problem& p,
                                       const attention_parts<A>& parts) {
  return parts.chunks <= few_chunks && p.v.dim % combined_values<A> == 0 &&
         p.v.dim <= 32 * combined_values<A>;
}

/// What a lane has of a row: all of its maximum and its sum, and a vector of weighted sums.
template <int width>
struct combined_row {
  double top;
  double sum;
  double weighted[width];
};

/// Of a row of at most 8 turns of chunks, of which lanes have one's state each. Their columns are
/// `pitch` apart from `from` on.
template <int turns, int width, class A>
__device__ inline combined_row<width> few_chunks_of(const max_sum<double>& s, const A* from,
                                                    std::int64_t pitch, int chunks) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  constexpr int shares = std::min(most_shares, vectors_under_way / turns);
  static_assert(most_shares * turns <= few_chunks && most_shares % shares == 0);
  chunk_columns<width, A> columns[turns][shares];
  const auto load = [&](int first) {
#pragma unroll
    for (int i = 0; i < turns * shares; ++i) {
      const int c = i / shares * most_shares + first + i % shares;
      columns[i / shares][i % shares] =
          chunk_columns<width, A>::of(from + (c < chunks ? c : 0) * pitch);
    }
  };
  load(0);
  combined_row<width> row{};
  row.top = max_over_lanes(s.max, 32);
  const double factor = s.sum == 0 ? 0.0 : s.max == row.top ? 1.0 : exp(s.max - row.top);
  row.sum = sum_over_lanes(s.sum == 0 ? 0.0 : s.sum * factor, 32);
#pragma unroll
  for (double& each : row.weighted) {
    each = -0.0;  // which leaves what is added as it is
  }
#pragma unroll 1
  for (int first = 0; first < most_shares; first += shares) {
    if (first > 0) {
      load(first);
    }
#pragma unroll
    for (int share = 0; share < shares; ++share) {
      double own[width] = {};
#pragma unroll
      for (int turn = 0; turn < turns; ++turn) {
        const int c = turn * most_shares + first + share;
        columns[turn][share].add_to(own, shuffle_xor(factor, lane ^ c));  // of the row's lane c
      }
#pragma unroll
      for (int i = 0; i < width; ++i) {
        row.weighted[i] += own[i];
      }
    }
  }
  return row;
}

/// Rows of few chunks, a row by 32 lanes. The same bits as by attention_combine_chunks, which adds
/// in the same order.
template <class In>
__global__ void __launch_bounds__(combine_few_threads)
    attention_combine_few(const core::attention_problem p,
                          const attention_parts<arithmetic_t<In>> parts) {
  using A = arithmetic_t<In>;
  constexpr int width = combined_values<A>;
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const std::int64_t rows = p.rows();
  const std::int64_t own_row = std::int64_t{blockIdx.x} * (combine_few_threads / 32) + thread / 32;
  const std::int64_t row = own_row < rows ? own_row : rows - 1;
  const auto at = placed_row::of(p, row);
  const int chunks = at.exists() ? parts.chunks_of(p, at.in) : 0;
  const int v_dim = static_cast<int>(p.v.dim);
  const int column = lane * width;
  const A* const from = parts.weighted + row * v_dim + (column < v_dim ? column : 0);
  wait_for_launch_before();
  max_sum<double> s{-infinity<double>, 0};
  if (lane < chunks) {
    s = parts.states[lane * rows + row];
  }
  // By the launch's chunks, which two rows of a wavefront have in common.
  const auto whole =
      parts.chunks <= most_shares       ? few_chunks_of<1, width>(s, from, rows * v_dim, chunks)
      : parts.chunks <= 2 * most_shares ? few_chunks_of<2, width>(s, from, rows * v_dim, chunks)
                                        : few_chunks_of<4, width>(s, from, rows * v_dim, chunks);
  if (own_row >= rows || !at.exists() || column >= v_dim) {
    return;
  }
  const auto finish = core::attention_finish<A>::of(
      p, at.head, core::public_state(static_cast<A>(whole.top), static_cast<A>(whole.sum)));
  const auto output = attention_output<A>::of(p, finish);
  if (column == 0) {
    core::write_attention_state(p, at.batch, at.head, at.token, finish.both.whole);
  }
  const std::int64_t to = core::offset_of(p.out, at.batch, at.head, at.token) + column;
#pragma unroll
  for (int i = 0; i < width; ++i) {
    store_value<In>(p.out, to + i, output(static_cast<A>(whole.weighted[i])));
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
    launch_next(on.stream, attention_combine_few<In>, divide_up(p.rows(), combine_few_threads / 32),
                combine_few_threads, 0, p, parts);
  } else {
    launch_next(on.stream, attention_combine_chunks<In>, p.rows(), combine_threads, 0, p, parts);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
