// SPDX-License-Identifier: Apache-2.0
/// \file
/// sample: rows by the ways of gpu/sampling/way.hpp, each by a kernel of its own.
#include <gpu/contract.hpp>
#include <gpu/group/block_lanes.hpp>
#include <gpu/job/row_source.hpp>
#include <gpu/plan/constants.hpp>
#include <gpu/sampling/lists.hpp>
#include <gpu/sampling/race_chunks.hpp>
#include <gpu/sampling/raw.hpp>
#include <gpu/sampling/rounds.hpp>
#include <gpu/sampling/way.hpp>
#include <gpu/typed.hpp>

#include <core/real_types.hpp>
#include <core/sample_row.hpp>

#include <algorithm>
#include <type_traits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

constexpr int sample_threads = core::sampling::row_memory::most_lanes;

template <class In>
__global__ void __launch_bounds__(sample_threads)
    sample_rows_by_block(const row_source<In> source, const core::sample_problem problem,
                         const sample_ways ways) {
  namespace sampling = core::sampling;
  if (ways.way_of(sampling::parameters_of(problem.options, blockIdx.x)) != sample_way::row) {
    return;
  }
  auto& memory = *reinterpret_cast<sampling::row_memory*>(dynamic_shared_memory());
  // Arguments that are referred to would be copied to each thread's memory.
  auto& shared_problem = *reinterpret_cast<core::sample_problem*>(&memory + 1);
  if (threadIdx.x == 0) {
    shared_problem = problem;
  }
  __syncthreads();
  const std::int64_t r = blockIdx.x;
  const sampling::row_of<In> row{source.row(r)};
  const block_lanes lanes;
  sampling::row_sampler<core::arithmetic_t<In>, block_lanes, sampling::row_of<In>>(
      lanes, memory, row, shared_problem, r)
      .run();
}

template <class In>
void run_by_block(executor& on, const core::sample_problem& p, const sample_ways& ways) {
  launch_shared(on.stream, sample_rows_by_block<In>, p.x.rows, sample_threads,
                sizeof(core::sampling::row_memory) + sizeof(core::sample_problem),
                row_source<In>::of(p.x), p, ways);
}

/// Enough chunks of `rows` rows for the device to be full of them.
template <class In>
race_cut cut_rows(const executor& on, std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t step = std::int64_t{race_threads} * race_columns * race_ahead<In>;
  const std::int64_t steps = std::max<std::int64_t>(divide_up(cols, step), 1);
  const std::int64_t blocks = std::int64_t{race_resident<In>} * on.properties.multiprocessors;
  const std::int64_t each =
      divide_up(steps, std::clamp<std::int64_t>(blocks / std::max<std::int64_t>(rows, 1), 1, steps));
  return {static_cast<int>(divide_up(steps, each)), each * step};
}

/// Rows in f32 arithmetic, whose ways are several.
template <class In>
void sample_float_rows(executor& on, const core::sample_problem& given, const sample_ways& ways,
                       const sample_lists& lists) {
  core::sample_problem p = given;
  const sample_options& o = p.options;
  const std::int64_t rows = p.x.rows;
  const bool has_race = ways.may_go(sample_way::race) && p.tokens.cols > 0;
  const bool has_rounds = ways.may_go(sample_way::rounds);
  const bool has_raws = raw_row::is_wanted(o);
  const bool limited = o.min_ps.data != nullptr || o.min_p > 0;
  const bool measures = o.top_ps.data != nullptr || o.top_p < 1 || o.top_ks.data != nullptr ||
                        o.top_k > 0;
  const std::int64_t raced =
      has_race || has_rounds ? std::min(p.tokens.cols, sample_ways::most_draws_raced) : 0;
  const race_cut cut = cut_rows<In>(on, rows * raced, p.x.cols);
  const race_cut raw_cut = cut_rows<In>(on, rows, p.x.cols);

  // Their addresses are multiples of 16.
  std::size_t bytes = 0;
  const auto take = [&](std::int64_t count, std::size_t size) {
    const std::size_t at = bytes;
    bytes += (static_cast<std::size_t>(count) * size + 15) / 16 * 16;
    return at;
  };
  const std::size_t raws_at = take(has_raws ? rows : 0, sizeof(raw_row));
  const std::size_t raw_parts_at = take(has_raws ? rows * raw_cut.chunks : 0, sizeof(raw_part));
  const std::size_t parts_at = take(rows * raced * cut.chunks, sizeof(race_part));
  const std::size_t measures_at =
      take(has_rounds && measures ? rows * raced * cut.chunks : 0, sizeof(near_measure));
  const std::size_t firsts_at = take(has_rounds ? rows * raced : 0, sizeof(first_round));
  std::byte* const memory = static_cast<std::byte*>(on.scratch.at_least(bytes));
  auto* const raws = reinterpret_cast<raw_row*>(memory + raws_at);
  auto* const raw_parts = reinterpret_cast<raw_part*>(memory + raw_parts_at);
  auto* const parts = reinterpret_cast<race_part*>(memory + parts_at);
  auto* const measured = reinterpret_cast<near_measure*>(memory + measures_at);
  auto* const firsts = reinterpret_cast<first_round*>(memory + firsts_at);

  const auto source = row_source<In>::of(p.x);
  with_lanes(on.properties.lanes, [&](auto lanes) {
    if (has_raws) {
      launch_grid(on.stream, raw_tops<lanes(), In>, rows * raw_cut.chunks, race_threads, source,
                  raw_cut, raw_parts);
      launch_next(on.stream, raw_masses<lanes(), In>, rows * raw_cut.chunks, race_threads, 0,
                  source, raw_cut, raw_parts);
      launch_next(on.stream, raw_finish<lanes(), In>, rows, race_threads, 0, p.options, raw_cut,
                  raw_parts, raws);
      p.options.lse = {};
      p.options.top_indices = {};
      p.options.top_log_probabilities = {};
    }
    const auto race = [&](const auto& reading, auto is_limited) {
      using rows_type = std::remove_cvref_t<decltype(reading)>;
      if (raced > 0) {
        launch_grid(on.stream, race_chunks<lanes(), is_limited(), In, rows_type>,
                    rows * raced * cut.chunks, race_threads, source, p, ways, cut, parts, reading);
      }
      if (has_race) {
        launch_next(on.stream, race_finish<In, rows_type>, rows * raced, race_threads, 0, source, p,
                    ways, cut, parts, raws, reading);
      }
    };
    if (given.edits.any()) {
      race(masked_rows<In>{row_removals::of(given.edits)}, std::false_type());
    } else if (limited) {
      race(whole_rows<In>{}, std::true_type());
    } else {
      race(whole_rows<In>{}, std::false_type());
    }
    if (has_rounds) {
      if (raced > 0 && measures) {
        launch_next(on.stream, measure_chunks<lanes(), In>, rows * raced * cut.chunks, race_threads,
                    0, source, p, ways, cut, parts, measured);
      }
      if (raced > 0) {
        launch_next(on.stream, judge_rows<lanes(), In>, rows * raced, race_threads, 0, source, p,
                    ways, cut, parts, measured, firsts, raws);
      }
      launch_next(on.stream, sample_in_rounds<lanes(), In>, rows, race_threads, 0, source, p, ways,
                  firsts, raced, raws);
    }
  });
  if (lists.values.data != nullptr) {
    launch_grid(on.stream, sample_from_lists<In>, rows, list_threads, p, ways, lists, raws);
  }
  if (ways.may_go(sample_way::row)) {
    run_by_block<In>(on, p, ways);
  }
}

}  // namespace

bool reads_edits(const core::sample_problem& p) {
  const core::edits& e = p.edits;
  const sample_options& o = p.options;
  const sample_ways ways = sample_ways::of(p);
  return p.x.type != dtype::f64 && row_removals::takes(e, p.x.rows, p.x.cols) &&
         (e.mask.type != dtype::u8 || p.x.cols % race_columns == 0) && ways.alike &&
         ways.may_go(sample_way::race) && !raw_row::is_wanted(o) && o.top_indices.data == nullptr;
}

void sample_rows(executor& on, const core::sample_problem& p, const sample_lists& lists) {
  const runtime::current_device current(on.device);
  const sample_ways ways = sample_ways::of(p);
  core::with_real(p.x.type, [&]<class In>(In) {
    if constexpr (sizeof(arithmetic_t<In>) == 4) {
      sample_float_rows<In>(on, p, ways, lists);
    } else {
      run_by_block<In>(on, p, ways);
    }
  });
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
