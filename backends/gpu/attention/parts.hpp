// SPDX-License-Identifier: Apache-2.0
/// \file
/// Keys in chunks: where the states of a row's chunks are, and how they become the row's result.
#pragma once

#include <gpu/contract.hpp>
#include <gpu/executor.hpp>
#include <gpu/plan/constants.hpp>
#include <gpu/state/exponential.hpp>

#include <core/attention.hpp>
#include <core/real_types.hpp>

#include <cstddef>
#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

using core::arithmetic_t;

/// Where the states of chunks are, if there are several.
template <class A>
struct attention_parts {
  max_sum<double>*
      states;   ///< [chunk][row], rows as batches, key heads, tokens, heads of the group
  A* weighted;  ///< [chunk][row][v_dim]
  std::int64_t chunks;
  std::int64_t chunk_keys;
  std::int64_t blocks;  ///< of rows, for each key head of a batch
};

/// Row `row` of those of a key head in a sequence.
template <class A>
__device__ inline core::attention_row<A> row_of(const core::attention_problem& p,
                                                const core::attention_sequence& in,
                                                std::int64_t key_head, std::int64_t row) {
  const std::int64_t group = p.group();
  return core::attention_row<A>::of(p, in, key_head * group + row % group, row / group);
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

/// The chunks of a problem's keys, `chunk_keys` in each, or all in one if that is 0; their memory
/// is the executor's.
template <class A>
attention_parts<A> make_parts(executor& on, const core::attention_problem& p,
                              std::int64_t chunk_keys, int rows_of_block) {
  const std::int64_t keys = p.most_keys();
  attention_parts<A> parts{};
  parts.chunk_keys = chunk_keys == 0 || keys == 0 ? (keys == 0 ? 1 : keys) : chunk_keys;
  parts.chunks = keys == 0 ? 1 : divide_up(keys, parts.chunk_keys);
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

constexpr int combine_threads = 256;

/// A row's chunks, by a block: as many threads as the values need, rounded up to a power of 2, have
/// a share of the chunks together.
template <class In>
__global__ void __launch_bounds__(combine_threads)
    attention_combine_chunks(const core::attention_problem p,
                             const attention_parts<arithmetic_t<In>> parts) {
  using A = arithmetic_t<In>;
  __shared__ double factors[combine_threads];
  __shared__ double totals[combine_threads];
  const auto thread = static_cast<int>(threadIdx.x);
  wait_for_launch_before();
  const std::int64_t row = blockIdx.x;
  const std::int64_t rows = gridDim.x;
  const std::int64_t group = p.group();
  const std::int64_t all_rows = group * p.q.tokens;
  const std::int64_t pair = row / all_rows;
  const std::int64_t within = row % all_rows;
  const std::int64_t batch = pair / p.k.heads;
  const std::int64_t head = pair % p.k.heads * group + within % group;
  const std::int64_t token = within / group;
  if (core::attention_sequence::with_token(p, batch, token).queries == 0) {
    return;
  }
  // The threads' values in one, by every thread, in one order.
  const auto over_block = [&](double own, const auto& combined) {
    totals[thread] = own;
    for (int half = combine_threads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (thread < half) {
        totals[thread] = combined(totals[thread], totals[thread + half]);
      }
    }
    __syncthreads();
    const double whole = totals[0];
    __syncthreads();
    return whole;
  };
  double own_top = -infinity<double>;
  for (std::int64_t c = thread; c < parts.chunks; c += combine_threads) {
    const double max = parts.states[c * rows + row].max;
    own_top = max > own_top ? max : own_top;
  }
  const double top = over_block(own_top, [](double a, double b) { return a > b ? a : b; });

  const int v_dim = static_cast<int>(p.v.dim);
  int columns = 1;
  while (columns < v_dim && columns < combine_threads) {
    columns *= 2;
  }
  const int share = thread / columns;
  const int shares = combine_threads / columns;
  constexpr int most_columns = core::most_attention_dim / combine_threads;
  double weighted[most_columns] = {};
  double own_sum = 0;
  for (std::int64_t begin = 0; begin < parts.chunks; begin += combine_threads) {
    double factor = 0;
    if (begin + thread < parts.chunks) {
      const max_sum<double> s = parts.states[(begin + thread) * rows + row];
      if (s.sum != 0) {
        factor = s.max == top ? 1.0 : exp(s.max - top);
        own_sum += s.sum * factor;
      }
    }
    __syncthreads();
    factors[thread] = factor;
    __syncthreads();
    const std::int64_t left = parts.chunks - begin;
    const int count = left < combine_threads ? static_cast<int>(left) : combine_threads;
#pragma unroll
    for (int i = 0; i < most_columns; ++i) {
      const int column = thread % columns + i * combine_threads;
      if (column < v_dim) {
        const A* const from = parts.weighted + (begin * rows + row) * v_dim + column;
#pragma unroll 4
        for (int c = share; c < count; c += shares) {
          const double of_chunk = factors[c];
          const A value = from[c * rows * v_dim];
          weighted[i] += of_chunk == 0 ? 0.0 : of_chunk * static_cast<double>(value);
        }
      }
    }
  }
  const double sum = over_block(own_sum, [](double a, double b) { return a + b; });
  const auto finish = core::attention_finish<A>::of(
      p, head, core::public_state(static_cast<A>(top), static_cast<A>(sum)));
  if (thread == 0) {
    core::write_attention_state(p, batch, head, token, finish.both.whole);
  }
  const std::int64_t to = core::offset_of(p.out, batch, head, token);
#pragma unroll
  for (int i = 0; i < most_columns; ++i) {
    totals[thread] = weighted[i];
    __syncthreads();
    const int column = thread % columns + i * combine_threads;
    if (share == 0 && column < v_dim) {
      double whole = totals[thread];
      for (int s = 1; s < shares; ++s) {
        whole += totals[thread + s * columns];
      }
      store_value<In>(p.out, to + column, finish.value(p, static_cast<A>(whole)));
    }
    __syncthreads();
  }
}

/// After the chunks' kernel, if there are several.
template <class In>
void combine_chunks(executor& on, const core::attention_problem& p,
                    const attention_parts<arithmetic_t<In>>& parts) {
  if (parts.chunks > 1) {
    launch_next(on.stream, attention_combine_chunks<In>, p.rows(), combine_threads, 0, p, parts);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
