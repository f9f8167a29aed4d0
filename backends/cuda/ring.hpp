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
/// No block waits for ever: chunks are claimed in order, and only into free slots. If the first
/// row that is not written were never complete, all slots of all rings would hold chunks of it;
/// but a row has fewer.
#pragma once

#include "chunk_copies.hpp"
#include "claim.hpp"
#include "exchange.hpp"

#include <gpu/map/run.hpp>

#include <algorithm>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

inline constexpr int chunk_warps = chunk_threads / 32;
inline constexpr int write_warps = 8;
inline constexpr int wait_warps = 2;
inline constexpr int ring_threads = (chunk_warps + write_warps + 2 + wait_warps) * 32;

#if SOFTFOLD_GPU_HOPPER

/// A slot for a chunk, but for its elements. The barriers count its ways round the ring.
template <class Job>
struct ring_slot {
  using state = typename Job::state;

  transfer_barrier arrived;  ///< the chunk, or the end of all chunks
  transfer_barrier folded;   ///< its warps' states are there
  transfer_barrier ready;    ///< its row's result is there
  transfer_barrier free;     ///< its elements have been taken, and its warps' states
  int row;                   ///< below 0 at the end
  int chunk;
  shared_array<state, chunk_warps> warps;
  shared_array<typename Job::result, 1> result;

  /// `lanes`: of a warp; all that read a slot last say so.
  __device__ void initialise(int lanes) {
    arrived.initialise(Job::fold_type::matrices);
    folded.initialise(chunk_warps);
    ready.initialise(1);
    free.initialise((write_warps + 1) * lanes);
  }
};

/// Writes result(load(v), part), vectors of results, for each vector v of a range of `count`
/// vectors or fewer, by `threads` threads; `to` corresponds to the range's base.
template <int count, class In, class Out, class Load, class Result>
__device__ inline void write_chunk(const vector_range<In>& range, Out* to, int thread, int threads,
                                   const Load& load, const Result& result) {
  constexpr int each = vector_width<Out>;
  constexpr int parts = vector_width<In> / each;
  const bool aligned = reinterpret_cast<std::uintptr_t>(to) % sizeof(block16) == 0;
  if (aligned && range.head == 0 && range.end == count * vector_range<In>::width) {
    auto* const vectors = reinterpret_cast<block16*>(to);
#pragma unroll 2
    for (int v = thread; v < count; v += threads) {
      const auto x = load(v);
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        store_vector(vectors + v * parts + part, result(x, part));
      }
    }
    return;
  }
#pragma unroll 1
  for (int v = thread; v < range.size(); v += threads) {
    const auto x = load(v);
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
  using slot = ring_slot<Job>;
  using element = typename Job::fold_type::element;
  using chunk_type = copied_chunk<typename Job::fold_type>;
  using exchange_type = state_exchange<typename Job::fold_type::monoid>;
  /// Whether elements are removed: the warps that fold them put them back without.
  static constexpr bool edits = Job::fold_type::only_plain;
  static constexpr int matrices = Job::fold_type::matrices;
  static constexpr int vectors = chunk_vectors_of(matrices);

  const Job& job;
  const int chunks;  // of each row
  const int slots;
  slot* const ring;         // [slots]
  block16* const elements;  // [slots][slot_vectors_of(matrices)]
  const exchange_type exchange;
  ring_position position = {};

  /// By chunk_warps warps.
  __device__ void fold(int thread) {
    for (;; position.advance(slots)) {
      slot& at = ring[position.slot];
      at.arrived.wait(position.phase);
      if (at.row < 0) {
        return;
      }
      const chunk_type chunk = chunk_at(at);
      auto own = job.fold.template hold<chunk_vectors_each_of(matrices)>(at.row, chunk.range,
                                                                         thread, chunk_threads);
      chunk.load(own);
      job.fold.edit(own);
      if constexpr (edits) {
        own.put_back(chunk.vectors());
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
    for (;; position.advance(slots)) {
      slot& at = ring[position.slot];
      at.arrived.wait(position.phase);
      at.ready.wait(position.phase);
      if (at.row < 0) {
        return;
      }
      if constexpr (edits) {
        at.folded.wait(position.phase);
      }
      const chunk_type chunk = chunk_at(at);
      const auto& range = chunk.range;
      auto* const to = job.y + at.row * job.y_stride + (range.base - job.fold.source.row(at.row));
      const auto& row = at.result[0];
      if (job.is_filled(row)) {
        const auto value = job.filling(row);
        for (int i = range.head + thread; i < range.end; i += write_warps * lanes) {
          to[i] = value;
        }
      } else {
        write_results(chunk, to, thread, row);
      }
      at.free.arrive();
    }
  }

  /// By one warp: the chunks' states.
  __device__ void publish() {
    for (;; position.advance(slots)) {
      slot& at = ring[position.slot];
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

  /// By one warp: fills free slots, in the end all of them with the end.
  __device__ void claim_and_read(unsigned& claimed) {
    const auto of_row = static_cast<unsigned>(chunks);
    const auto all = static_cast<unsigned>(job.fold.source.rows * chunks);
    unsigned number = 0;
    for (int ends = 0; ends < slots; position.advance(slots)) {
      slot& at = ring[position.slot];
      at.free.wait(position.phase ^ 1);
      if (number < all) {
        number = shuffle(is_first() ? claim_next(claimed, all) : 0U, 0);
      }
      if (number >= all) {
        ++ends;
        if (is_first()) {
          at.row = -1;
          for (int i = 0; i < matrices; ++i) {
            at.arrived.arrive();
          }
        }
        continue;
      }
      if (is_first()) {
        at.row = static_cast<int>(number / of_row);
        at.chunk = static_cast<int>(number % of_row);
      }
      synchronize_warp();
      chunk_at(at).start(at.arrived);
    }
  }

  /// By wait_warps warps in turn: the rows' states. None waits at another's slots, which may go
  /// round the ring meanwhile.
  __device__ void wait_for_rows(int turn) {
    for (position.advance(slots, turn);; position.advance(slots, wait_warps)) {
      slot& at = ring[position.slot];
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

  __device__ chunk_type chunk_at(const slot& at) const {
    return {job.fold, at.row,
            job.fold.source.range(at.row, std::int64_t{at.chunk} * vectors, vectors),
            elements + position.slot * slot_vectors_of(matrices)};
  }

  template <class Out>
  __device__ void write_results(const chunk_type& chunk, Out* to, int thread,
                                const typename Job::result& row) const {
    constexpr int threads = write_warps * lanes;
    const block16* const from = chunk.vectors();
    if constexpr (matrices == 1) {
      constexpr int each = vector_width<Out>;
      job.with_results(row, [&](const auto& value) {
        write_chunk<vectors>(
            chunk.range, to, thread, threads, [&](int v) { return from[v]; },
            [&](const block16& x, int part) {
              return packed<Out>(
                  [&](int i) { return value(element_of<element>(x, part * each + i)); });
            });
      });
    } else {
      struct pair {
        block16 first;
        block16 second;
      };
      const block16* const beside = chunk.vectors_beside();
      const int shift = chunk.shift_beside();
      write_chunk<vectors>(
          chunk.range, to, thread, threads,
          [&](int v) {
            return pair{from[v], shift == 0 ? beside[v] : joined(beside[v], beside[v + 1], shift)};
          },
          [&](const pair& x, int part) { return job.values(x.first, x.second, part, row); });
    }
  }
};

template <int lanes, class Job>
__global__ void __launch_bounds__(ring_threads, 1)
    map_ring_of_chunks(const __grid_constant__ Job job, int chunks, int slots,
                       exchange_memory* memory) {
  auto* const elements = reinterpret_cast<block16*>(dynamic_shared_memory());
  __shared__ shared_array<ring_slot<Job>, most_ring_slots> ring;
  if (static_cast<int>(threadIdx.x) < slots) {
    ring[threadIdx.x].initialise(lanes);
  }
  __syncthreads();
  chunk_ring<lanes, Job> stream{job,         chunks,   slots,
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
      static_cast<std::size_t>(plan.ring_slots * slot_vectors_of(Job::fold_type::matrices)) *
          sizeof(block16),
      job, plan.chunks, plan.ring_slots, exchange);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
