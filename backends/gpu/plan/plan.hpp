// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which kernel a shape gets, as data. Host code without a device's runtime.
///
/// What a plan does to a row depends on its columns, its alignment and the device, never on the
/// number of rows: a row's bits do not depend on the batch.
#pragma once

#include <softfold/config.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Plans by name. One that a shape cannot have is not forced: it has the tables'.
enum class plan_name : std::uint8_t {
  any,        ///< the tables'
  lanes,      ///< row_plan_kind::lanes; the tables' wherever there is room
  block,      ///< row_plan_kind::block
  cluster,    ///< row_plan_kind::cluster
  chunks,     ///< row_plan_kind::chunks; maps read them twice
  clustered,  ///< the same, second_pass::clustered
  together,   ///< the same, second_pass::together
  ring,       ///< the same, second_pass::ring
  ranked,     ///< topk_plan_kind::lanes, each lane's best
  sorted,     ///< topk_plan_kind::lanes, all elements
  packs,      ///< topk_plan_kind::packs
  bounded,    ///< topk_plan_kind::bounded
  lists,      ///< topk_plan_kind::lists
  groups,     ///< topk_plan_kind::selection, by groups
  elements,   ///< topk_plan_kind::selection, all elements compete
};
inline constexpr const char* plan_names[] = {
    "",       "lanes",  "block", "cluster", "chunks", "clustered", "together", "ring",
    "ranked", "sorted", "packs", "bounded", "lists",  "groups",    "elements"};

static_assert(std::size(plan_names) == static_cast<std::size_t>(plan_name::elements) + 1);
constexpr bool is_of_topk(plan_name name) { return name >= plan_name::ranked; }

/// What plans need to know of a device.
struct device_limits {
  int lanes = 32;          ///< of a warp or wavefront
  int cluster_blocks = 0;  ///< most blocks of a cluster; 0: none
  int multiprocessors = 1;
  bool runs_together = false;         ///< a launch can ask for all of its blocks to run at once
  bool copies_in_bulk = false;        ///< to shared memory, while warps do other things
  std::int64_t shared_bytes = 65536;  ///< of shared memory, at most, that a block can have
  std::int64_t cache_bytes = 0;       ///< of a cache that keeps rows for a second read; 0: none
  int bytes_a_clock = 0;              ///< that memory moves, for each multiprocessor; 0: unknown
};

/// A row of `cols` elements of `element_bytes`; every row starts at a multiple of `alignment`
/// bytes: 32, 16, or an element's.
struct row_shape {
  std::int64_t cols = 0;
  int element_bytes = 4;
  int alignment = 32;
  int matrices = 1;   ///< that are read side by side, of this shape each
  bool alike = true;  ///< their rows lie alike in vectors
};

/// Who works on a row.
enum class row_plan_kind : std::uint8_t {
  lanes,    ///< some lanes of a warp; the row in their registers
  block,    ///< a block; the row in its registers
  cluster,  ///< the blocks of a cluster; the row in their registers
  chunks,   ///< blocks that fold a chunk each
};

/// How a map passes a second time over the chunks of rows, and, clustered, who combines those of a
/// reduction. Changes no bit of a result.
enum class second_pass : std::uint8_t {
  reads,      ///< another kernel reads them again
  clustered,  ///< all chunks of a row are in registers of the blocks of a cluster
  together,   ///< all chunks are in registers of blocks that run at once
  ring,       ///< they are in shared memory, from their first pass on until their row is known
};

struct row_plan {
  row_plan_kind kind = row_plan_kind::lanes;
  /// 16-byte vectors of each thread, of all matrices; kind chunks: of each.
  int vectors = 1;
  int lanes = 1;      ///< kind lanes: of each row, a power of two
  int threads = 256;  ///< of a block
  int blocks = 1;     ///< kind cluster, and second_pass::clustered: of each row
  int part = 0;       ///< kind cluster: vectors of each block, of each matrix
  int chunks = 1;     ///< kind chunks: of each row
  second_pass pass = second_pass::reads;
  int ring_blocks = 0;  ///< second_pass::ring: blocks that run at once, of all rows
  int ring_slots = 0;   ///< second_pass::ring: for chunks, in a block's shared memory
  /// Rows of a launch, at most; 0: all. Rows that are read twice are still in a cache then.
  std::int64_t batch_rows = 0;

  friend bool operator==(const row_plan&, const row_plan&) = default;
};

/// Vectors of a chunk, of all matrices, and of each thread of the block that takes it: 32 KiB in
/// flight for each block, several blocks on a multiprocessor. Rows of less have smaller blocks.
inline constexpr int chunk_threads = 256;
inline constexpr int least_chunk_threads = 64;
inline constexpr int chunk_vectors_each = 8;
inline constexpr int chunk_vectors = chunk_threads * chunk_vectors_each;
/// The same of each matrix.
constexpr int chunk_vectors_each_of(int matrices) { return chunk_vectors_each / matrices; }
constexpr int chunk_vectors_of(int matrices) { return chunk_vectors / matrices; }

/// Top-k up to here keeps a list of candidates in shared memory, of so many at most.
inline constexpr int most_listed = 128;
inline constexpr int most_candidates = 1024;

/// Chunks of a block that makes such a list, at most: there is room for their states.
inline constexpr int most_span = 128;

/// Blocks of a multiprocessor that hold a chunk of all matrices each in registers.
constexpr int resident_chunks(std::size_t element_bytes, int matrices) {
  return element_bytes == 8 ? 2 : matrices > 1 ? 3 : 4;
}

/// Threads of a block that holds a row, and of one that holds a part of one, at most.
inline constexpr int row_threads = 512;
inline constexpr int cluster_threads = 256;

/// Rows and chunks of a launch whose blocks exchange the chunks' states, at most.
inline constexpr int most_rows_exchanged = 16384;
inline constexpr int most_chunks_exchanged = 65536;

/// Words of each chunk's state, at most.
inline constexpr int exchange_words = 2;

/// What they do it through, in device memory. All 0 before and after a launch.
struct exchange_memory {
  std::uint64_t words[exchange_words * most_chunks_exchanged];
  unsigned readers[most_rows_exchanged];
  unsigned claimed;  ///< shares of the work
};

/// Chunks in a block's shared memory, at most, and vectors of each slot, and of a matrix in it: a
/// copy in bulk is slower if its two sides lie differently in lines of 128 bytes.
inline constexpr int most_ring_slots = 7;
inline constexpr int line_vectors = 8;
constexpr int copy_vectors_of(int matrices) { return chunk_vectors_of(matrices) + line_vectors; }
constexpr int slot_vectors_of(int matrices) { return matrices * copy_vectors_of(matrices); }

/// Chunks that a block of a cluster holds, at most, one of them in its registers.
inline constexpr int most_chunks_held = 4;

/// Above this number of chunks their states are combined by a kernel of their own.
inline constexpr int most_chunks_read_by_all = 256;

/// Of the vectors that rows are read and written by.
inline constexpr int vector_bytes = 16;

/// Vectors, from a multiple of `alignment` bytes on, that cover a row wherever it starts.
std::int64_t vectors_of(const row_shape& shape, int alignment = vector_bytes);

/// softmax and log-softmax: one read and one write while registers can hold the row.
row_plan plan_map(const row_shape& shape, const device_limits& device,
                  plan_name forced = plan_name::any);

/// The plan of plan_map for so many rows.
row_plan plan_rows(const row_plan& any, std::int64_t rows, const row_shape& shape,
                   const device_limits& device, plan_name forced = plan_name::any);

/// The same of rows whose packets, see core/reproducible.hpp, a warp's lanes have whole.
struct packet_warps {
  std::int64_t short_row;  ///< vectors of rows for which half as many of a thread are enough
  int shared;              ///< of a warp's vectors, those that hold its neighbours' packets
  int most_threads;        ///< of a block
};
/// Chunks, without more, for rows that registers cannot hold.
row_plan plan_once(const row_shape& shape, const packet_warps& warps, const device_limits& device,
                   plan_name forced = plan_name::any);

/// One read, or a second pass for which the rows' states are known: logsumexp, fold, normalize.
/// Rows too long for lanes are folded by the same chunks as in top-k, so that a state has the same
/// bits whether a list is made with it or not; where blocks have other numbers of threads, the
/// entry point folds again.
row_plan plan_pass(const row_shape& shape, plan_name forced = plan_name::any);

/// The same of logsumexp and fold, with what is done for so many rows.
row_plan plan_reduction(const row_shape& shape, std::int64_t rows, const device_limits& device,
                        plan_name forced = plan_name::any);

/// How the top k of a row are found; in one read of it.
enum class topk_plan_kind : std::uint8_t {
  lanes,      ///< the row in the registers of some lanes of a warp: their best, or a sort
  packs,      ///< the row in a warp's shared memory; lanes sort packs of it and keep the best
  bounded,    ///< a row of one chunk by a warp that keeps what exceeds a rising bound
  lists,      ///< the k best of each span of chunks by a block; a merge, if there are several
  selection,  ///< about k groups of vectors with the largest elements are read again; or, where k
              ///< is too large for groups, all elements compete
};

/// The lanes that hold a row keep its best: one, or so many, where each of them has
/// least_ranked_vectors or more.
inline constexpr int most_ranked = 8;
inline constexpr int least_ranked_vectors = 4;

/// Elements of a pack, as many as are kept.
inline constexpr int pack_sizes[] = {8, 16, 32, 64};
/// A lane's share of one: the fewer registers, the more warps.
constexpr int pack_of_lane(int pack) { return pack < 16 ? pack : 16; }
/// Lanes that fold a row, by row_plan, are so many times those that search it by packs, at most.
inline constexpr int most_folds_each = 8;

/// Vectors of each lane of those that sort a row.
inline constexpr int sorted_vectors = 4;

/// Entries of each thread of a block that are sorted by bins.
inline constexpr int sorted_each = 8;

struct topk_plan {
  topk_plan_kind kind = topk_plan_kind::selection;
  row_plan row;               ///< kinds lanes and packs; of the latter who folds
  int ranked = 0;             ///< kind lanes: the best of each lane; 0: all elements are sorted
  int pack = 0;               ///< kind packs: its elements
  int searching = 1;          ///< kind packs: lanes of a row that look for its best
  int warp_rows = 1;          ///< kind packs: rows of a warp
  bool folds_as_pass = true;  ///< a row's state has the same bits as by plan_pass
  int group_vectors = 8;      ///< a power of two; 0: all elements compete
  std::int64_t groups = 0;  ///< if all elements do: of one each, or 0 if shared memory is too small
  int chunks = 1;           ///< of each row, as in a reduction
  int span = 1;             ///< kind lists: chunks of each block
  int threads = chunk_threads;  ///< of a block; the state of a row depends on it
  int capacity = 256;           ///< entries sorted at the end, a power of two
  bool split = false;  ///< chunks by blocks of their own, then a selection by one block a row
  bool shared_entries = true;  ///< what is sorted fits into shared memory

  [[nodiscard]] int spans() const { return (chunks + span - 1) / span; }
  /// Of the block that selects; it scans as many chunks at once as have threads of their own.
  [[nodiscard]] int selection_threads() const {
    return split || capacity > sorted_each * chunk_threads ? 2 * chunk_threads : chunk_threads;
  }
};

/// Kind packs: from one row's first vector to the next one's. Those who read side by side, up to 8
/// vectors of some rows, are in different banks.
constexpr int pack_pitch(int vectors, int searching) {
  int pitch = vectors;
  while (searching < 8 && pitch % (2 * searching) != searching) {
    ++pitch;
  }
  return pitch;
}

/// Kind packs: words of a row's list, and of what its probabilities are made with.
constexpr int pack_list_words(int pack) { return pack + 1; }
inline constexpr int pack_share_words = 4;

/// Bytes of a warp's shared memory: its rows, a vector that is outside, their shares and lists.
constexpr int bytes_of_packs(int rows, int vectors, int searching, int pack) {
  const int shares_and_lists = rows * (pack_share_words + pack_list_words(pack)) * 4;
  return (rows * pack_pitch(vectors, searching) + 1) * vector_bytes +
         (shares_and_lists + vector_bytes - 1) / vector_bytes * vector_bytes;
}

/// Whether an element's key and column fit into the 8 bytes of an entry; else it has 16.
constexpr bool has_packed_entries(const row_shape& shape) {
  return shape.element_bytes < 8 && shape.cols < std::int64_t{0xffffffff};
}

topk_plan plan_topk(const row_shape& shape, std::int64_t rows, std::int64_t k,
                    const device_limits& device, plan_name forced = plan_name::any);

plan_name name_of(const row_plan& plan);
plan_name name_of(const topk_plan& plan);

/// In words: the name, then who has how much of a row.
std::string to_text(const row_plan& plan);
std::string to_text(const topk_plan& plan);

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
