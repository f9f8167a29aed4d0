// SPDX-License-Identifier: Apache-2.0
/// \file
/// sample: rows by the ways of gpu/sampling/way.hpp, each by a kernel of its own.
#include <gpu/contract.hpp>
#include <gpu/group/block_lanes.hpp>
#include <gpu/job/row_source.hpp>
#include <gpu/plan/constants.hpp>
#include <gpu/reproducible/run.hpp>
#include <gpu/sampling/lists.hpp>
#include <gpu/sampling/race_chunks.hpp>
#include <gpu/sampling/raw.hpp>
#include <gpu/sampling/rounds.hpp>
#include <gpu/sampling/stairs_draws.hpp>
#include <gpu/sampling/way.hpp>
#include <gpu/scratch_arrays.hpp>
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

/// Rows in f32 arithmetic, whose ways are several.
template <class In>
void sample_float_rows(executor& on, const core::sample_problem& given, const sample_ways& ways,
                       const sample_lists& lists) {
  core::sample_problem p = given;
  const sample_options& o = given.options;
  const std::int64_t rows = p.x.rows;
  const bool has_raws = wants_raws(o);
  if (has_raws) {  // a kernel of its own has them
    p.options.lse = {};
    p.options.raw_log_probability = {};
    p.options.top_indices = {};
    p.options.top_log_probabilities = {};
  }
  // Without draws how many elements are kept may be wanted all the same.
  const bool has_draws = p.tokens.cols > 0;
  const bool has_race = ways.may_go(sample_way::race) && (has_draws || ways.wants_kept);
  const bool has_stairs = ways.may_go(sample_way::stairs) && has_draws;
  const bool counts =
      o.top_ps.data != nullptr || o.top_p < 1 || o.top_ks.data != nullptr || o.top_k > 0;
  const std::int64_t draws =
      has_race || has_stairs ? rows * std::max<std::int64_t>(p.tokens.cols, 1) : 0;
  const bool has_rest = has_race && ways.wants_kept;
  // The race's read of all rows finds the totals of raw ones, too, unless they are short.
  constexpr std::int64_t short_row = 2048;
  const auto raw_plan = total_plan::of<In>(on, p.x, 1);
  const bool in_race = has_raws && has_race && draws == rows && ways.alike && !given.edits.any() &&
                       p.x.cols > short_row;
  const bool by_tiles = raw_plan.by_tiles() && !in_race;
  const int blocks =
      (in_race ? summing_race_resident : race_resident) * on.properties.multiprocessors;
  const auto chunks =
      row_chunks::filling(p.x.cols, reader_step<In>, std::max<std::int64_t>(draws, 1), blocks);
  const std::int64_t all_chunks = draws * chunks.count;
  const std::int64_t raw_chunks = in_race ? all_chunks : raw_plan.parts(rows);
  core::reproducible::row_total<float>* totals = nullptr;
  part_total<float>* raw_parts = nullptr;
  race_part* parts = nullptr;
  stair_draws stairs = {.chunks = chunks, .counters = stair_window::counters_of(draws, p.x.cols)};
  draw_state* states = nullptr;
  draw_list rest = {};  // what sample_in_rounds ends
  scratch_arrays::lay_out(on, [&](scratch_arrays& memory) {
    totals = memory.take<core::reproducible::row_total<float>>(has_raws && by_tiles ? rows : 0);
    raw_parts = memory.take<part_total<float>>(has_raws ? raw_chunks : 0);
    parts = memory.take<race_part>(has_race ? all_chunks : 0);
    stairs.parts = memory.take<stair_part>(has_stairs ? all_chunks : 0);
    stairs.sums = memory.take<counted_sum>(has_stairs && counts ? all_chunks * stairs.counters : 0);
    states = memory.take<draw_state>(has_rest ? draws : 0);
    rest = {memory.take<std::int64_t>(has_rest ? draws : 0), memory.take<int>(has_rest ? 1 : 0)};
  });

  const auto source = row_source<In>::of(p.x);
  with_lanes(on.properties.lanes, [&](auto lanes) {
    const auto race = [&](const auto& reading, auto sums) {
      using rows_type = std::remove_cvref_t<decltype(reading)>;
      launch_grid(on.stream, race_chunks<lanes(), In, rows_type, sums()>, all_chunks,
                  reader_threads, source, p, ways, chunks, parts, rest.count, reading, raw_parts);
      launch_next(on.stream, race_finish<lanes(), In, rows_type>, draws, finish_threads, 0, source,
                  p, ways, chunks, parts, states, rest, reading);
    };
    if (has_race && given.edits.any()) {
      race(masked_rows<In>{row_removals::of(given.edits)}, std::false_type());
    } else if (in_race) {
      race(whole_rows<In>{}, std::true_type());
    } else if (has_race) {
      race(whole_rows<In>{}, std::false_type());
    }
    if (has_stairs) {
      launch_grid(on.stream,
                  counts ? stair_chunks<lanes(), true, In> : stair_chunks<lanes(), false, In>,
                  all_chunks, reader_threads, source, p, ways, stairs);
      launch_next(on.stream, stair_finish<lanes(), In>, draws, reader_threads, 0, source, p, ways,
                  stairs);
    }
    if (has_rest || ways.may_go(sample_way::rounds)) {
      launch_next(on.stream, sample_in_rounds<lanes(), In>,
                  std::min<std::int64_t>(std::max(rows, draws), 2 * on.properties.multiprocessors),
                  reader_threads, 0, source, p, ways, rest, states);
    }
  });
  with_lanes(on.properties.lanes, [&](auto lanes) {
    if (lists.spans.entries != nullptr) {
      launch_next(on.stream, sample_from_lists<lanes(), In, unmerged_lists>, rows, merge_threads, 0,
                  p, ways, unmerged_lists{lists.spans});
    } else if (lists.values.data != nullptr) {
      launch_next(on.stream, sample_from_lists<lanes(), In, ordered_lists<In>>, rows, list_threads,
                  0, p, ways, ordered_lists<In>{lists});
    }
  });
  if (ways.may_go(sample_way::row)) {
    run_by_block<In>(on, p, ways);
  }
  if (has_raws) {
    if (!in_race) {
      launch_parts<In>(on, raw_plan, p.x, 1, raw_parts, {.totals = totals});
    }
    with_lanes(on.properties.lanes, [&](auto lanes) {
      launch_next(on.stream, raw_of_rows<lanes(), In>, rows, by_tiles ? lanes() : reader_threads, 0,
                  source, given, in_race ? chunks : raw_plan.chunks, raw_parts, totals);
    });
  }
}

}  // namespace

bool reads_edits(const core::sample_problem& p) {
  const core::edits& e = p.edits;
  const sample_options& o = p.options;
  const sample_ways ways = sample_ways::of(p);
  return p.x.type != dtype::f64 && row_removals::takes(e, p.x.rows, p.x.cols) &&
         (e.mask.type != dtype::u8 || p.x.cols % block_columns == 0) && ways.alike &&
         ways.may_go(sample_way::race) && !ways.wants_kept && !wants_raws(o) &&
         o.top_indices.data == nullptr;
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
