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

/// How the rows of a race are cut: enough chunks for the device to be full of them. Each has to
/// find a bound of its own.
struct race_cut {
  int chunks;
  std::int64_t columns;  ///< of a chunk

  template <class In>
  static race_cut of(const executor& on, const core::sample_problem& p) {
    constexpr std::int64_t step = std::int64_t{race_threads} * race_columns * race_ahead<In>;
    const std::int64_t steps = std::max<std::int64_t>(divide_up(p.x.cols, step), 1);
    const std::int64_t blocks = std::int64_t{race_resident<In>} * on.properties.multiprocessors;
    const std::int64_t rows = p.x.rows * std::max<std::int64_t>(p.tokens.cols, 1);
    const std::int64_t each = divide_up(steps, std::clamp<std::int64_t>(blocks / rows, 1, steps));
    return {static_cast<int>(divide_up(steps, each)), each * step};
  }
};

/// Rows in f32 arithmetic, whose ways are several.
template <class In>
void sample_float_rows(executor& on, const core::sample_problem& given, const sample_ways& ways,
                       const sample_lists& lists) {
  const race_cut cut = race_cut::of<In>(on, given);
  const bool races = ways.may_go(sample_way::race) && given.tokens.cols > 0;
  const bool has_raws = raw_row::is_wanted(given.options);
  const std::int64_t racing = given.x.rows * given.tokens.cols;
  const auto raw_bytes = has_raws ? static_cast<std::size_t>(given.x.rows) * sizeof(raw_row) : 0;
  const auto part_bytes = races && cut.chunks > 1 ? static_cast<std::size_t>(racing * cut.chunks) *
                                                        sizeof(core::sampling::runner)
                                                  : 0;
  std::byte* const memory = static_cast<std::byte*>(on.scratch.at_least(raw_bytes + part_bytes));
  auto* const raws = reinterpret_cast<raw_row*>(memory);
  auto* const parts = reinterpret_cast<core::sampling::runner*>(memory + raw_bytes);
  const auto source = row_source<In>::of(given.x);
  core::sample_problem p = given;
  with_lanes(on.properties.lanes, [&](auto lanes) {
    if (has_raws) {
      launch_grid(on.stream, sample_raw_rows<lanes(), In>, p.x.rows, raw_threads, source, p.options,
                  raws);
      p.options.lse = {};
      p.options.top_indices = {};
      p.options.top_log_probabilities = {};
    }
    if (ways.may_go(sample_way::rounds)) {
      launch_grid(on.stream, sample_in_rounds<lanes(), In>, p.x.rows, round_threads, source, p,
                  ways, raws);
    }
  });
  if (races) {
    const auto race = [&](const auto& rows) {
      using rows_type = std::remove_cvref_t<decltype(rows)>;
      launch_grid(on.stream, race_chunks<In, rows_type>, racing * cut.chunks, race_threads, source,
                  p, ways, cut.chunks, cut.columns, parts, raws, rows);
    };
    if (given.edits.any()) {
      race(masked_rows<In>{row_removals::of(given.edits)});
    } else {
      race(whole_rows<In>{});
    }
    if (cut.chunks > 1) {
      launch_next(on.stream, race_finish<In>, racing, finish_threads, 0, p, ways, cut.chunks, parts,
                  raws);
    }
  }
  if (lists.values.data != nullptr) {
    launch_grid(on.stream, sample_from_lists<In>, p.x.rows, list_threads, p, ways, lists, raws);
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
