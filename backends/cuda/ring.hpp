// SPDX-License-Identifier: Apache-2.0
/// \file
/// Second pass ring: many rows that are too long for a cluster's registers. One read and
/// one write of each row: its chunks wait in the shared memory of the whole device until their
/// row's state is known.
///
/// Each multiprocessor runs one block, with a ring of chunks in its shared memory. The blocks claim
/// the chunks of all rows in order, so that a row's chunks are in flight at about the same time,
/// and multiprocessors that get more of the memory's bandwidth claim more.
/// The warps of a block have a job each: one claims chunks and starts their copies, eight fold
/// them, one publishes their states, two wait for those of rows, eight write. Only those two wait
/// for other blocks, and what they wait for is none of their own block's work.
///
/// No block waits for ever: chunks are claimed in order, and only into free places. If the first
/// row that is not written were never complete, all places of all rings would hold chunks of it;
/// but a row has fewer.
#pragma once

#include "exchange.hpp"
#include "hopper.hpp"

#include <gpu/map/run.hpp>
#include <gpu/row/removals.hpp>

#include <algorithm>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

inline constexpr int chunk_warps = chunk_threads / 32;
inline constexpr int write_warps = 8;
inline constexpr int wait_warps = 2;
inline constexpr int ring_threads = (chunk_warps + write_warps + 2 + wait_warps) * 32;

#if SOFTFOLD_GPU_HOPPER

/// A place for a chunk, but for its elements. The barriers count its ways round the ring.
template <class Job>
struct ring_place {
  using state = typename Job::state;

  transfer_barrier arrived;  ///< the chunk, or the end of all chunks
  transfer_barrier folded;   ///< its warps' states are there
  transfer_barrier ready;    ///< its row's result is there
  transfer_barrier free;     ///< its elements have been taken, and its warps' states
  int row;                   ///< below 0 at the end
  int chunk;
  shared_array<state, chunk_warps> warps;
  shared_array<typename Job::result, 1> result;

  /// `lanes`: of a warp; all that read a place last say so.
  __device__ void initialise(int lanes) {
    arrived.initialise(1);
    folded.initialise(chunk_warps);
    ready.initialise(1);
    free.initialise((write_warps + 1) * lanes);
  }
};

/// A way round a ring: the place's number, and how often it has been passed, modulo 2.
struct ring_position {
  int place = 0;
  int phase = 0;

  __device__ void advance(int places, int steps = 1) {
    place += steps;
    if (place >= places) {
      place -= places;
      phase ^= 1;
    }
  }
};

/// The number of the next chunk; `chunks` or more at the end, once for each block.
__device__ inline unsigned claim_chunk(unsigned& claimed, unsigned chunks) {
  device_atomic<unsigned> next(claimed);
  const unsigned number = next.fetch_add(1, ::cuda::memory_order_relaxed);
  if (number == chunks + gridDim.x - 1) {  // the last claim of the launch
    next.store(0, ::cuda::memory_order_relaxed);
  }
  return number;
}

/// Starts the copy of a chunk, by all lanes of a warp: in bulk, but for the matrix's first and last
/// vector, if they are not whole. The first lane arrives at the barrier.
template <class In>
__device__ inline void start_copy(const vector_range<In>& range, transfer_barrier& arrived,
                                  block16* to) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int size = range.size();
  const int first = range.readable(0) ? 0 : 1;
  const int last = size > 0 && range.readable(size - 1) ? size : size - 1;
  const int edge = lane == 0 ? 0 : size - 1;
  if (lane < 2 && edge >= 0 && edge < size && !range.readable(edge)) {
    to[edge] = load_elements(range, edge);
  }
  synchronize_warp();
  if (lane != 0) {
    return;
  }
  if (last > first) {
    arrived.copy(to + first, range.base + first * vector_range<In>::width,
                 static_cast<unsigned>(last - first) * sizeof(block16));
  } else {
    arrived.arrive();
  }
}

/// The same of a chunk of whole vectors of which columns are removed: not of what is removed before
/// its first and after its last vector, and if a mask of bits leaves little, only of vectors with
/// something left, by all lanes.
template <class In>
__device__ inline void start_copy(const vector_range<In>& range, const kept_columns& kept,
                                  transfer_barrier& arrived, block16* to) {
  constexpr int width = vector_width<In>;
  constexpr int lines = chunk_vectors / line_vectors / 32;  // of a lane
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto* const from = reinterpret_cast<const block16*>(range.base);
  const int size = range.size();
  const int first = kept.first > 0 ? kept.first / width : 0;
  const int last = kept.last < size * width ? (kept.last + width - 1) / width : size;
  if (kept.mask != nullptr && !kept.bytes) {
    std::uint32_t left[lines];
    int count = 0;
#pragma unroll
    for (int k = 0; k < lines; ++k) {
      left[k] = kept.template vectors_left<width>(k * 32 + lane, last);
      count += count_bits(left[k]);
    }
    if (4 * sum_over_lanes(count, 32) < size) {
#pragma unroll
      for (int k = 0; k < lines; ++k) {
        for (; left[k] != 0; left[k] &= left[k] - 1) {
          const int v = (k * 32 + lane) * line_vectors + lowest_bit(left[k]);
          copy_ahead(to + v, from + v);
        }
      }
      arrived.count_copies();
      synchronize_warp();
      if (lane == 0) {
        arrived.arrive();
      }
      return;
    }
  }
  if (lane == 0) {
    if (last > first) {
      arrived.copy(to + first, from + first, static_cast<unsigned>(last - first) * sizeof(block16));
    } else {
      arrived.arrive();
    }
  }
}

/// Writes value(element) for each element of a chunk in shared memory, by `threads` threads; `to`
/// corresponds to the range's base.
template <class In, class Out, class Value>
__device__ inline void write_chunk(const vector_range<In>& range, const block16* from, Out* to,
                                   int thread, int threads, const Value& value) {
  constexpr int each = vector_width<Out>;
  constexpr int parts = vector_width<In> / each;
  const auto result = [&](const block16& x, int part) {
    return packed<Out>([&](int i) { return value(element_of<In>(x, part * each + i)); });
  };
  const bool aligned = reinterpret_cast<std::uintptr_t>(to) % sizeof(block16) == 0;
  if (aligned && range.head == 0 && range.end == chunk_vectors * vector_range<In>::width) {
    auto* const vectors = reinterpret_cast<block16*>(to);
#pragma unroll 2
    for (int v = thread; v < chunk_vectors; v += threads) {
      const block16 x = from[v];
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        store_vector(vectors + v * parts + part, result(x, part));
      }
    }
    return;
  }
#pragma unroll 1
  for (int v = thread; v < range.size(); v += threads) {
    const block16 x = from[v];
#pragma unroll
    for (int part = 0; part < parts; ++part) {
      const block16 y = result(x, part);
      const int at = v * vector_range<In>::width + part * each;
      if (aligned && at >= range.head && at + each <= range.end) {
        store_vector(reinterpret_cast<block16*>(to + at), y);
        continue;
      }
      store_singly(to + at, y, range.head - at, range.end - at);
    }
  }
}

/// What a block's warps share, and their jobs. Each goes round the ring until it finds the end.
template <int lanes, class Job>
struct chunk_ring {
  using state = typename Job::state;
  using place = ring_place<Job>;
  using range_type = vector_range<typename Job::fold_type::element>;
  using exchange_type = state_exchange<typename Job::fold_type::monoid>;
  /// Whether elements are removed: the warps that fold them put them back without.
  static constexpr bool edits = Job::fold_type::only_plain;

  const Job& job;
  const int chunks;  // of each row
  const int places;
  place* const ring;        // [places]
  block16* const elements;  // [places][place_vectors]
  const exchange_type exchange;
  ring_position position = {};

  /// By chunk_warps warps.
  __device__ void fold(int thread) {
    for (;; position.advance(places)) {
      place& at = ring[position.place];
      at.arrived.wait(position.phase);
      if (at.row < 0) {
        return;
      }
      const range_type range = range_of(at);
      auto own = job.fold.template hold<chunk_vectors_each>(at.row, range, thread, chunk_threads);
      own.load(elements_of(range));
      job.fold.edit(own);
      if constexpr (edits) {
        own.put_back(elements_of(range));
        fence_copies();
        synchronize_warp();
      }
      const state s = job.fold.template fold_part<lanes, precision::fast, false>(own);
      if (is_first()) {
        at.warps[thread / lanes] = s;
        at.folded.arrive();
      }
    }
  }

  /// By write_warps warps.
  __device__ void write(int thread) {
    for (;; position.advance(places)) {
      place& at = ring[position.place];
      at.arrived.wait(position.phase);
      at.ready.wait(position.phase);
      if (at.row < 0) {
        return;
      }
      if constexpr (edits) {
        at.folded.wait(position.phase);
      }
      const range_type range = range_of(at);
      auto* const to = job.y + at.row * job.y_stride + (range.base - job.fold.source.row(at.row));
      const auto& row = at.result[0];
      if (job.is_filled(row)) {
        const auto value = job.filling(row);
        for (int i = range.head + thread; i < range.end; i += write_warps * lanes) {
          to[i] = value;
        }
      } else {
        job.with_results(row, [&](const auto& value) {
          write_chunk(range, elements_of(range), to, thread, write_warps * lanes, value);
        });
      }
      at.free.arrive();
    }
  }

  /// By one warp: the chunks' states.
  __device__ void publish() {
    for (;; position.advance(places)) {
      place& at = ring[position.place];
      at.arrived.wait(position.phase);
      if (at.row < 0) {
        return;
      }
      at.folded.wait(position.phase);
      const state s = combine_states<lanes>(at.warps.data(), chunk_warps, job.fold.states());
      if (is_first()) {
        exchange.publish(std::int64_t{at.row} * chunks + at.chunk, s);
      }
      at.free.arrive();
    }
  }

  /// By one warp: fills free places, in the end all of them with the end.
  __device__ void claim_and_read(unsigned& claimed) {
    const auto of_row = static_cast<unsigned>(chunks);
    const auto all = static_cast<unsigned>(job.fold.source.rows * chunks);
    unsigned number = 0;
    for (int ends = 0; ends < places; position.advance(places)) {
      place& at = ring[position.place];
      at.free.wait(position.phase ^ 1);
      if (number < all) {
        number = shuffle(is_first() ? claim_chunk(claimed, all) : 0U, 0);
      }
      if (number >= all) {
        ++ends;
        if (is_first()) {
          at.row = -1;
          at.arrived.arrive();
        }
        continue;
      }
      if (is_first()) {
        at.row = static_cast<int>(number / of_row);
        at.chunk = static_cast<int>(number % of_row);
      }
      synchronize_warp();
      const range_type range = range_of(at);
      if constexpr (edits) {
        start_copy(range, job.fold.kept(at.row, range), at.arrived, elements_of(range));
      } else {
        start_copy(range, at.arrived, elements_of(range));
      }
    }
  }

  /// By wait_warps warps in turn: the rows' states. None waits at another's places, which may go
  /// round the ring meanwhile.
  __device__ void wait_for_rows(int turn) {
    for (position.advance(places, turn);; position.advance(places, wait_warps)) {
      place& at = ring[position.place];
      at.arrived.wait(position.phase);
      const int row = at.row;
      if (row >= 0) {
        state kept[exchange_type::template most_kept<lanes>];
        const state whole = exchange.template wait_for_row<lanes>(
            row, chunks, job.fold.states(), [&](int j) -> state& { return kept[j]; });
        if (is_first()) {
          at.result[0] = job.result_of(whole);
        }
      }
      if (is_first()) {
        at.ready.arrive();
      }
      if (row < 0) {
        return;
      }
      exchange.template leave<lanes>(row, chunks);
    }
  }

 private:
  /// Of the warp.
  __device__ static bool is_first() { return threadIdx.x % lanes == 0; }

  __device__ range_type range_of(const place& at) const {
    return job.fold.source.range(at.row, std::int64_t{at.chunk} * chunk_vectors, chunk_vectors);
  }
  __device__ block16* elements_of(const range_type& range) const {
    const auto number = reinterpret_cast<std::uintptr_t>(range.base) / sizeof(block16);
    return elements + position.place * place_vectors + number % line_vectors;
  }
};

template <int lanes, class Job>
__global__ void __launch_bounds__(ring_threads, 1)
    map_ring_of_chunks(const Job job, int chunks, int places, exchange_memory* memory) {
  extern __shared__ block16 elements[];
  __shared__ shared_array<ring_place<Job>, most_ring_places> ring;
  if (static_cast<int>(threadIdx.x) < places) {
    ring[threadIdx.x].initialise(lanes);
  }
  __syncthreads();
  chunk_ring<lanes, Job> stream{job,         chunks,   places,
                                ring.data(), elements, {memory->words, memory->readers}};
  const int thread = static_cast<int>(threadIdx.x);
  int warp = thread / lanes;
  if (warp < chunk_warps) {
    return stream.fold(thread);
  }
  warp -= chunk_warps;
  if (warp < write_warps) {
    return stream.write(thread - chunk_threads);
  }
  warp -= write_warps;
  if (warp == 0) {
    return stream.publish();
  }
  if (warp == 1) {
    return stream.claim_and_read(memory->claimed);
  }
  stream.wait_for_rows(warp - 2);
}

#else

template <int lanes, class Job>
__global__ void map_ring_of_chunks(const Job, int, int, exchange_memory*) {}

#endif

template <int lanes, class Job>
bool launch_ring_of_chunks(const Job& job, const row_plan& plan, exchange_memory* exchange,
                           stream_handle stream) {
  const std::int64_t blocks =
      std::min<std::int64_t>(plan.ring_blocks, job.fold.source.rows * plan.chunks);
  return launch_together(
      stream, map_ring_of_chunks<lanes, Job>, blocks, ring_threads,
      static_cast<std::size_t>(plan.ring_places) * place_vectors * sizeof(block16), job,
      plan.chunks, plan.ring_places, exchange);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
