// SPDX-License-Identifier: Apache-2.0
/// \file
/// Chunks of rows race, one read; then each row's best runner.
#pragma once

#include <gpu/job/row_source.hpp>
#include <gpu/reproducible/totals.hpp>
#include <gpu/row/row_chunks.hpp>
#include <gpu/sampling/race.hpp>
#include <gpu/sampling/results.hpp>
#include <gpu/sampling/way.hpp>
#include <gpu/uninitialised.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Blocks of a race on a multiprocessor: as many as need no memory for registers.
constexpr int race_resident = 4;
constexpr int summing_race_resident = 3;  ///< of those that find totals, too

/// Draws that race: their numbers are draw * rows + row.
struct draw_list {
  std::int64_t* numbers;
  int* count;

  /// Its place.
  __device__ int append(std::int64_t number) const {
    const int place = atomicAdd(count, 1);
    numbers[place] = number;
    return place;
  }
};

/// Whether the filters keep a race's winner, as far as is known; or no race has been yet.
enum class verdict : std::uint8_t { kept, removed, unknown, unraced };

/// What is known of a draw whose token is not.
struct draw_state {
  std::int64_t winner = -1;  ///< of the last race
  float top = 0;             ///< the row's largest element
  core::sampling::row_kind kind = core::sampling::row_kind::ordinary;
  verdict judged = verdict::unknown;  ///< the winner
};

/// What race_chunks reads rows with: as they are, or with what is removed.
template <class In>
struct whole_rows {
  static constexpr int resident = race_resident;

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

/// `sums`: the same read finds the parts' totals, of the rows as they are. `cleared`, if given, is
/// the number of elements of a list that race_finish appends to.
template <int lanes, class In, class Rows, bool sums>
__global__ void __launch_bounds__(reader_threads,
                                  least_resident(sums ? summing_race_resident : Rows::resident))
    race_chunks(const row_source<In> source, const core::sample_problem problem,
                const sample_ways ways, const row_chunks chunks, race_part* parts, int* cleared,
                const Rows rows, part_total<float>* totals) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  __shared__ uninitialised<race_part> part;
  let_next_begin();
  if (cleared != nullptr && blockIdx.x == 0 && threadIdx.x == 0) {
    *cleared = 0;
  }
  const std::int64_t number = blockIdx.x / static_cast<unsigned>(chunks.count);
  const auto chunk = static_cast<int>(blockIdx.x % static_cast<unsigned>(chunks.count));
  const std::int64_t row = number % source.rows;
  const core::sampling::parameters p = core::sampling::parameters_of(problem.options, row);
  if (ways.way_of(p) != sample_way::race) {
    return;
  }
  const auto reader = rows.reader(source, row);
  const auto race_with = [&](const auto& also) {
    race<In, false, decltype(rows.reader(source, row))>::of(reader, p, number / source.rows)
        .template run<lanes>(chunks.begin(chunk), chunks.end(chunk, source.cols), part.get(),
                             -infinity<float>, also);
  };
  if constexpr (sums) {
    __shared__ uninitialised<total_memory<float>> shared;
    packet_thread<In, false> own{ordered_scale<false>{}};
    int left = own.most_packets / reader_ahead<In>;
    race_with([&](const auto& blocks) {
      own.add(blocks, [](int) { return 0; });
      if (--left == 0) {
        own.carry();
        left = own.most_packets / reader_ahead<In>;
      }
    });
    const auto total = total_of_block<lanes>(own, shared.get());
    if (threadIdx.x == 0) {
      totals[blockIdx.x] = total;
    }
  } else {
    race_with([](const auto&) {});
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = part.get();
  }
}

/// The parts of a row that its best runner may be in, in shared memory.
template <int threads>
struct finish_memory {
  static constexpr int most = 8;

  double keys[threads];
  std::int64_t columns[threads];
  race_part parts[most];
  std::int64_t begins[most];
  std::int64_t ends[most];
  int count;  ///< of those, `most` + 1 if there are more
  // Of the whole row, as a part's.
  std::uint32_t best;
  std::uint32_t top;
  std::uint32_t nan;
  core::sampling::runner winner;
};

/// Finds them, by the whole block.
template <int threads>
__device__ inline void gather_parts(const race_part* parts, const row_chunks& chunks,
                                    std::int64_t cols, finish_memory<threads>& memory) {
  __syncthreads();
  if (threadIdx.x == 0) {
    memory.best = 0;
    memory.top = 0;
    memory.nan = 0;
    memory.count = 0;
  }
  __syncthreads();
  for (auto i = static_cast<int>(threadIdx.x); i < chunks.count; i += threads) {
    atomicMax(&memory.best, parts[i].best);
    atomicMax(&memory.top, parts[i].top);
    atomicMax(&memory.nan, parts[i].nan);
  }
  __syncthreads();
  const float best = core::value_of_key<float>(memory.best);
  for (auto i = static_cast<int>(threadIdx.x); i < chunks.count; i += threads) {
    const race_part& part = parts[i];
    if (part.may_have_best(best)) {
      const int place = atomicAdd(&memory.count, 1);
      if (place < memory.most) {
        memory.parts[place] = part;
        memory.begins[place] = chunks.begin(i);
        memory.ends[place] = chunks.end(i, cols);
      }
    }
  }
  __syncthreads();
}

/// memory.parts[0], just made of the whole row, is all there is.
template <int threads>
__device__ inline void take_part(std::int64_t cols, finish_memory<threads>& memory) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const race_part& part = memory.parts[0];
    memory.best = part.best;
    memory.top = part.top;
    memory.nan = part.nan;
    memory.count = part.has_runner() ? 1 : 0;
    memory.begins[0] = 0;
    memory.ends[0] = cols;
  }
  __syncthreads();
}

/// Makes memory.winner the best runner of the parts in memory, for all threads.
template <class Race, int threads>
__device__ inline void find_winner(const Race& race, finish_memory<threads>& memory) {
  namespace sampling = core::sampling;
  const race_part& first = memory.parts[0];
  const bool is_plain = memory.count == 1 && first.count == 1;  // by far most rows
  if (memory.nan != 0 || memory.count == 0 || is_plain) {
    if (threadIdx.x == 0) {
      memory.winner.key = memory.nan != 0 ? std::numeric_limits<double>::infinity()
                                          : static_cast<double>(first.bound());
      memory.winner.column = memory.nan != 0 ? nan_column
                             : is_plain      ? first.columns[0]
                                             : sampling::runner{}.column;
    }
    __syncthreads();
    return;
  }
  const bool fits = memory.count <= memory.most;
  const float best = core::value_of_key<float>(memory.best);
  sampling::runner own;
  for (int i = 0; i < (fits ? memory.count : 1); ++i) {
    const race_part& part = memory.parts[i];
    const bool listed = fits && part.count > 0 && part.count <= race_part::most;
    std::int64_t begin = 0;
    std::int64_t size = race.row.cols;
    if (fits) {
      begin = memory.begins[i];
      size = listed ? part.count : memory.ends[i] - begin;
    }
    for (std::int64_t j = threadIdx.x; j < size; j += threads) {
      race.compare_exactly(listed ? part.columns[j] : begin + j, best, own);
    }
  }
  const sampling::runner winner = best_of_block(own, memory.keys, memory.columns);
  if (threadIdx.x == 0) {
    memory.winner = winner;
  }
  __syncthreads();
}

/// What all parts of a row say of it.
struct race_outcome {
  bool is_plain;       ///< one element can win, and there is no NaN
  std::uint32_t best;  ///< as a part's
  std::uint32_t top;
  std::int64_t column;  ///< that can win
};

/// By each warp for itself: most rows need no more, nor a barrier.
template <int lanes>
__device__ inline race_outcome outcome_of(const race_part* parts, int count) {
  const auto lane = static_cast<int>(threadIdx.x % lanes);
  race_outcome row = {true, 0, 0, -1};
  std::uint32_t nan = 0;
  for (int i = lane; i < count; i += lanes) {
    row.best = parts[i].best > row.best ? parts[i].best : row.best;
    row.top = parts[i].top > row.top ? parts[i].top : row.top;
    nan |= parts[i].nan;
  }
  row.best = max_over_warp<lanes>(row.best);
  row.top = max_over_warp<lanes>(row.top);
  int found = 0;
  for (int i = lane; i < count; i += lanes) {
    if (parts[i].may_have_best(core::value_of_key<float>(row.best))) {
      found += parts[i].count == 1 ? 1 : 2;
      row.column = parts[i].columns[0];
    }
  }
  const lane_mask finders = ballot(found != 0);
  row.is_plain = ballot(nan != 0 || found > 1) == 0 && gpu::count(finders) == 1;
  row.column = shuffle(row.column, row.is_plain ? gpu::count((finders & (~finders + 1)) - 1) : 0);
  return row;
}

constexpr int finish_threads = 64;

/// The tokens of rows without filters; where what they keep is wanted, too, the draws are left to
/// sample_in_rounds.
template <int lanes, class In, class Rows>
__global__ void __launch_bounds__(finish_threads, least_resident(8))
    race_finish(const row_source<In> source, const core::sample_problem problem,
                const sample_ways ways, const row_chunks chunks, const race_part* parts,
                draw_state* states, const draw_list rest, const Rows rows) {
  if constexpr (!target_has_lanes<lanes>) {
    return stop_wrong_lanes();
  }
  __shared__ uninitialised<finish_memory<finish_threads>> shared;
  const std::int64_t number = blockIdx.x;
  const std::int64_t row = number % source.rows;
  const core::sampling::parameters p = core::sampling::parameters_of(problem.options, row);
  const bool races = ways.way_of(p) == sample_way::race;
  wait_for_launch_before();
  let_next_begin();
  if (!races) {
    return;
  }
  const race_part* const own = parts + number * chunks.count;
  const race_outcome outcome = outcome_of<lanes>(own, chunks.count);
  core::sampling::runner best = {static_cast<double>(core::value_of_key<float>(outcome.best)),
                                 outcome.column};
  if (!outcome.is_plain) {
    gather_parts(own, chunks, source.cols, shared.get());
    const auto reader = rows.reader(source, row);
    find_winner(
        race<In, false, decltype(rows.reader(source, row))>::of(reader, p, number / source.rows),
        shared.get());
    best = shared.get().winner;
  }
  if (threadIdx.x == 0) {
    if (ways.wants_kept) {
      states[number] = {best.column, core::value_of_key<float>(outcome.top), kind_of(best),
                        verdict::kept};
      rest.append(number);
    } else {
      write_drawn(problem, row, number / source.rows, best, kind_of(best), 0);
    }
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
