// SPDX-License-Identifier: Apache-2.0
/// \file
/// Rows without filters: their chunks race, one read.
#pragma once

#include <gpu/job/row_source.hpp>
#include <gpu/sampling/race.hpp>
#include <gpu/sampling/results.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

constexpr int race_threads = 256;

/// Blocks of a race on a multiprocessor: as many as need no memory for registers.
template <class In>
constexpr int race_resident = sizeof(In) == 4 ? 3 : 4;

/// What race_chunks reads rows with: as they are, or with what is removed.
template <class In>
struct whole_rows {
  static constexpr int resident = race_resident<In>;

  __device__ row_reader<In> reader(const row_source<In>& source, std::int64_t row) const {
    return row_reader<In>::of(source.row(row), source.cols);
  }
};
template <class In>
struct masked_rows {
  static constexpr int resident = 3;

  row_removals removals;

  __device__ masked_reader<In> reader(const row_source<In>& source, std::int64_t row) const {
    return masked_reader<In>::of(row_reader<In>::of(source.row(row), source.cols),
                                 removals.of_row(row, 0, source.cols));
  }
};

/// Chunks of rows: their best runners, or the tokens if a chunk is a row.
template <class In, class Rows>
__global__ void __launch_bounds__(race_threads, least_resident(Rows::resident))
    race_chunks(const row_source<In> source, const core::sample_problem problem,
                const sample_ways ways, int chunks, std::int64_t chunk_columns,
                core::sampling::runner* parts, const raw_row* raws, const Rows rows) {
  __shared__ race_memory<race_threads> memory;
  let_next_begin();
  const std::int64_t draw = blockIdx.x / static_cast<unsigned>(chunks) / source.rows;
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(chunks) % source.rows;
  const std::int64_t chunk = blockIdx.x % static_cast<unsigned>(chunks);
  const core::sampling::parameters p = core::sampling::parameters_of(problem.options, row);
  if (ways.way_of(p) != sample_way::race) {
    return;
  }
  const auto reader = rows.reader(source, row);
  const std::int64_t begin = chunk * chunk_columns;
  const std::int64_t end =
      begin + chunk_columns < source.cols ? begin + chunk_columns : source.cols;
  const auto best = race<In, false, decltype(rows.reader(source, row))>::of(reader, p, draw)
                        .template run<false>(begin, end, memory);
  if (threadIdx.x == 0) {
    if (chunks == 1) {
      write_drawn<In>(problem, row, draw, best, kind_of(best), 0, raws);
    } else {
      parts[blockIdx.x] = best;
    }
  }
}

constexpr int finish_threads = 64;

/// The tokens of rows of several chunks.
template <class In>
__global__ void __launch_bounds__(finish_threads)
    race_finish(const core::sample_problem problem, const sample_ways ways, int chunks,
                const core::sampling::runner* parts, const raw_row* raws) {
  namespace sampling = core::sampling;
  __shared__ double keys[finish_threads];
  __shared__ std::int64_t columns[finish_threads];
  const std::int64_t draw = blockIdx.x / problem.x.rows;
  const std::int64_t row = blockIdx.x % problem.x.rows;
  wait_for_launch_before();
  if (ways.way_of(sampling::parameters_of(problem.options, row)) != sample_way::race) {
    return;
  }
  sampling::runner own;
  for (int i = static_cast<int>(threadIdx.x); i < chunks; i += finish_threads) {
    const sampling::runner other = parts[std::int64_t{blockIdx.x} * chunks + i];
    if (other.beats(own)) {
      own = other;
    }
  }
  const sampling::runner best = best_of_block(own, keys, columns);
  if (threadIdx.x == 0) {
    write_drawn<In>(problem, row, draw, best, kind_of(best), 0, raws);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
