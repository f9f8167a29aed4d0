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

/// Blocks that the device is full of.
int race_blocks(const executor& on) { return race_resident * on.properties.multiprocessors; }

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
  const bool measures =
      o.top_ps.data != nullptr || o.top_p < 1 || o.top_ks.data != nullptr || o.top_k > 0;
  // Draws whose races are cut into chunks.
  const std::int64_t raced = (has_race || has_rounds) && ways.few_draws ? rows * p.tokens.cols : 0;
  // Most draws end with the first round. Others are worth their launches for many draws, or where
  // chunks did not know the largest element that they are limited by; min-p needs no third.
  constexpr std::int64_t for_second = 16;
  constexpr std::int64_t for_third = 128;
  const int rounds = !has_rounds || raced == 0        ? 0
                     : !limited && raced < for_second ? 1
                     : !measures || raced < for_third ? 2
                                                      : 3;
  const int blocks = race_blocks(on);
  const auto cut_for = [&](std::int64_t count) {
    return race_cut::of<In>(p.x.cols, blocks / std::max<std::int64_t>(count, 1));
  };
  const race_cut cut = cut_for(raced);
  const race_cut raw_cut = cut_for(rows);
  const std::int64_t most_parts =
      std::max<std::int64_t>(raced * cut.chunks, rounds > 1 ? blocks : 0);

  // Their addresses are multiples of 16.
  std::size_t bytes = 0;
  const auto take = [&](std::int64_t count, std::size_t size) {
    const std::size_t at = bytes;
    bytes += (static_cast<std::size_t>(count) * size + 15) / 16 * 16;
    return at;
  };
  const std::size_t raws_at = take(has_raws ? rows : 0, sizeof(raw_row));
  const std::size_t raw_parts_at = take(has_raws ? rows * raw_cut.chunks : 0, sizeof(raw_part));
  const std::size_t parts_at = take(raced > 0 ? most_parts : 0, sizeof(race_part));
  const std::int64_t judged = has_rounds ? raced : 0;
  const std::size_t measures_at =
      take(judged > 0 && measures ? most_parts : 0, sizeof(near_measure));
  const std::size_t states_at = take(judged, sizeof(draw_state));
  const std::size_t numbers_at = take(2 * judged, sizeof(std::int64_t));
  const std::size_t counts_at = take(has_rounds ? 2 : 0, sizeof(int));
  std::byte* const memory = static_cast<std::byte*>(on.scratch.at_least(bytes));
  auto* const raws = reinterpret_cast<raw_row*>(memory + raws_at);
  auto* const raw_parts = reinterpret_cast<raw_part*>(memory + raw_parts_at);
  auto* const parts = reinterpret_cast<race_part*>(memory + parts_at);
  auto* const measured = reinterpret_cast<near_measure*>(memory + measures_at);
  auto* const states = reinterpret_cast<draw_state*>(memory + states_at);
  auto* const numbers = reinterpret_cast<std::int64_t*>(memory + numbers_at);
  auto* const counts = reinterpret_cast<int*>(memory + counts_at);
  // What a round leaves to the next one, in turns.
  const auto left = [&](int round) -> draw_list {
    return has_rounds ? draw_list{numbers + round % 2 * judged, counts + round % 2} : draw_list{};
  };

  const auto source = row_source<In>::of(p.x);
  with_lanes(on.properties.lanes, [&](auto lanes) {
    if (has_raws) {
      launch_grid(on.stream, raw_chunks<lanes(), In>, rows * raw_cut.chunks, race_threads, source,
                  raw_cut, raw_parts);
      launch_next(on.stream, raw_finish<lanes(), In>, rows, race_threads, 0, source, p.options,
                  raw_cut, raw_parts, raws);
      p.options.lse = {};
      p.options.top_indices = {};
      p.options.top_log_probabilities = {};
    }
    const race_work first = {cut, raced, {}, blocks};
    const auto race = [&](const auto& reading, auto is_limited) {
      using rows_type = std::remove_cvref_t<decltype(reading)>;
      if (raced > 0) {
        launch_grid(on.stream, race_chunks<lanes(), is_limited(), In, rows_type>,
                    raced * cut.chunks, race_threads, source, p, ways, first, nullptr, parts,
                    left(0).count, reading);
      }
      if (has_race) {
        launch_next(on.stream, race_finish<In, rows_type>, raced, finish_threads, 0, source, p,
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
    if (!has_rounds) {
      return;
    }
    race_work work = first;
    for (int round = 0; round < rounds; ++round) {
      const draw_state* const before = round == 0 ? nullptr : states;
      const draw_list next = left(round);
      const std::int64_t grid = round == 0 ? raced * cut.chunks : blocks;
      if (round > 0) {
        launch_next(on.stream, race_chunks<lanes(), true, In, whole_rows<In>>, grid, race_threads,
                    0, source, p, ways, work, before, parts, next.count, whole_rows<In>{});
      }
      if (measures) {
        launch_next(on.stream, measure_chunks<lanes(), In>, grid, race_threads, 0, source, p, ways,
                    work, before, parts, measured);
      }
      launch_next(on.stream, judge_draws<lanes(), In>, std::min(raced, grid), finish_threads, 0,
                  source, p, ways, work, parts, measured, states, round == 0, next, raws);
      work.list = next;
    }
    if (rounds == 0) {
      work.draws = rows;
    }
    launch_next(on.stream, sample_in_rounds<lanes(), In>,
                std::min<std::int64_t>(std::max(rows, raced), 2 * on.properties.multiprocessors),
                race_threads, 0, source, p, ways, work, rounds > 0 ? states : nullptr, raws);
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
