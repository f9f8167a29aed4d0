// SPDX-License-Identifier: Apache-2.0
/// \file
/// Gradients of rows: a warp for each tile of a row, sums of tiles in their order, then results.
#pragma once

#include <gpu/job/row_source.hpp>
#include <gpu/row/row_reader.hpp>

#include <core/problem.hpp>
#include <core/reproducible.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The forward results of rows and the gradients by them.
template <class In>
struct gradient_source {
  row_source<In> y;
  row_source<In> dy;
  arithmetic_t<In> scale;
  bool log;

  static gradient_source of(const core::backward_problem& p) {
    return {row_source<In>::of(p.y), row_source<In>::of(p.dy),
            static_cast<arithmetic_t<In>>(p.scale), p.log};
  }
};

/// The sum of a tile by a warp, to all of its lanes.
template <int lanes, class In>
__device__ inline double sum_of_tile(const gradient_source<In>& source, std::int64_t row,
                                     std::int64_t begin) {
  namespace reproducible = core::reproducible;
  using A = arithmetic_t<In>;
  constexpr int each = reproducible::tile_packets / lanes;
  const std::int64_t cols = source.y.cols;
  const auto y = row_reader<In>::of(source.y.row(row), cols);
  const auto dy = row_reader<In>::of(source.dy.row(row), cols);
  double sums[each];
#pragma unroll
  for (int j = 0; j < each; ++j) {
    const std::int64_t first =
        begin + std::int64_t{static_cast<int>(threadIdx.x % lanes) + j * lanes} * block_columns;
    sums[j] = 0;
    if (first < cols) {
      column_block<In> of_y;
      column_block<In> of_dy;
      y.load(first, of_y);
      dy.load(first, of_dy);
      double summands[block_columns];
#pragma unroll
      for (int i = 0; i < block_columns; ++i) {
        summands[i] = first + i < cols
                          ? reproducible::summand<A>(source.log, of_y.element(i), of_dy.element(i))
                          : 0.0;
      }
      sums[j] = reproducible::sum_of_packet(summands);
    }
  }
#pragma unroll
  for (int half = each / 2; half > 0; half /= 2) {
#pragma unroll
    for (int j = 0; j < half; ++j) {
      sums[j] += sums[j + half];
    }
  }
  double sum = sums[0];
  for (int half = lanes / 2; half > 0; half /= 2) {
    sum += shuffle_xor(sum, half);
  }
  return sum;
}

/// A warp for each tile.
template <int lanes, class In>
__global__ void __launch_bounds__(reader_threads, least_resident(4))
    gradient_tiles(const gradient_source<In> source, std::int64_t tiles, double* sums) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  let_next_begin();
  const std::int64_t number =
      std::int64_t{blockIdx.x} * (reader_threads / lanes) + threadIdx.x / lanes;
  const std::int64_t row = number / tiles;
  if (row >= source.y.rows) {
    return;
  }
  const double sum =
      sum_of_tile<lanes>(source, row, number % tiles * core::reproducible::tile_columns);
  if (threadIdx.x % lanes == 0) {
    sums[number] = sum;
  }
}

/// A warp for each row.
template <int lanes, class A>
__global__ void __launch_bounds__(reader_threads)
    gradient_rows(std::int64_t rows, std::int64_t tiles, A scale, const double* sums,
                  core::reproducible::row_gradient<A>* totals) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  wait_for_launch_before();
  let_next_begin();
  const std::int64_t row =
      std::int64_t{blockIdx.x} * (reader_threads / lanes) + threadIdx.x / lanes;
  if (row >= rows) {
    return;
  }
  core::compensated_sum whole;
  for (std::int64_t first = 0; first < tiles; first += lanes) {
    const std::int64_t own = first + threadIdx.x % lanes;
    const double sum = own < tiles ? sums[row * tiles + own] : 0;
    for (int i = 0; i < lanes; ++i) {
      const double next = shuffle(sum, i);
      if (first + i < tiles) {
        whole.add(next);
      }
    }
  }
  if (threadIdx.x % lanes == 0) {
    totals[row] = core::reproducible::row_gradient<A>::of(scale, whole);
  }
}

/// A thread for block_columns columns.
template <class In, class Out>
__global__ void __launch_bounds__(reader_threads)
    map_gradients(const gradient_source<In> source, std::int64_t blocks_of_row, Out* dx,
                  std::int64_t stride,
                  const core::reproducible::row_gradient<arithmetic_t<In>>* totals) {
  using A = arithmetic_t<In>;
  constexpr int width = vector_width<Out>;
  const std::int64_t number = std::int64_t{blockIdx.x} * reader_threads + threadIdx.x;
  const std::int64_t row = number / blocks_of_row;
  if (row >= source.y.rows) {
    return;
  }
  const std::int64_t cols = source.y.cols;
  const std::int64_t first = number % blocks_of_row * block_columns;
  column_block<In> y;
  column_block<In> dy;
  row_reader<In>::of(source.y.row(row), cols).load(first, y);
  row_reader<In>::of(source.dy.row(row), cols).load(first, dy);
  wait_for_launch_before();
  const core::reproducible::row_gradient<A> total = totals[row];
  Out* const to = dx + row * stride + first;
  const bool in_vectors = reinterpret_cast<std::uintptr_t>(to) % vector_bytes == 0;
#pragma unroll
  for (int v = 0; v < block_columns / width; ++v) {
    A values[width];
    bool is_number = true;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const A of_y = y.element(v * width + i);
      const A of_dy = dy.element(v * width + i);
      values[i] = source.log ? total.log_softmax(of_y, of_dy) : total.softmax(of_y, of_dy);
      is_number = is_number && values[i] == values[i];
    }
    block16 results = packed<Out>([&](int i) { return values[i]; });
    if (!is_number) {  // instructions that round pairs have a NaN of their own
#pragma unroll
      for (int i = 0; i < width; ++i) {
        set_element<Out>(results, i, Out(values[i]));
      }
    }
    const std::int64_t left = cols - first - v * width;
    if (in_vectors && left >= width) {
      store_vector(reinterpret_cast<block16*>(to + v * width), results);
    } else {
      store_singly(to + v * width, results, 0, static_cast<int>(left < width ? left : width));
    }
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
