// SPDX-License-Identifier: Apache-2.0
#include <gpu/plan/plan.hpp>

#include <algorithm>
#include <limits>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

constexpr int lane_block_threads = 128;

/// Rows of up to `vectors` vectors are worked on by so many lanes, with so many vectors each. Four
/// or more hide the latency of memory and share what is done once a row; more lanes read and write
/// more bytes side by side; and rows of a few columns more than a power of two should not leave
/// half of the registers empty.
struct lanes_rule {
  int vectors;
  int lanes;
  int each;
};
constexpr lanes_rule lanes_rules[] = {
    {1, 1, 1},    {2, 2, 1},    {4, 2, 2},    {8, 2, 4},    {10, 2, 5},  {12, 2, 6},
    {16, 4, 4},   {20, 4, 5},   {24, 4, 6},   {28, 4, 7},   {32, 8, 4},  {40, 8, 5},
    {48, 8, 6},   {56, 8, 7},   {64, 8, 8},   {80, 16, 5},  {96, 16, 6}, {112, 16, 7},
    {128, 16, 8}, {160, 32, 5}, {192, 32, 6}, {224, 32, 7}, {256, 32, 8}};
/// Rows of two matrices that are a little longer: the blocks that would hold them have too little
/// under way.
constexpr lanes_rule longest_of_two = {320, 32, 10};

/// Vectors of each thread of a block that holds a long row, or a part of one, in registers.
constexpr int vectors_each = 8;

/// Vectors of a row, of each matrix, that a cluster's blocks share evenly. Below, one block is as
/// quick; above, a row of one matrix is quicker by a cluster whose blocks have a whole chunk each.
struct cluster_rule {
  std::int64_t least;
  std::int64_t most;
};
constexpr cluster_rule cluster_rules[] = {  // of one matrix, of two
    {832, 2560},
    {512, std::numeric_limits<std::int64_t>::max()}};
/// Of one matrix, where memory is so quick that clusters' waiting shows, and how quick that is.
constexpr cluster_rule quick_memory_rule = {1537, 3200};
constexpr int quick_memory = 16;  ///< bytes a clock
/// What a test can have shared so.
constexpr std::int64_t least_shared = 512;

int round_up(std::int64_t n, int multiple) {
  return static_cast<int>((n + multiple - 1) / multiple * multiple);
}

const lanes_rule* lanes_rule_for(std::int64_t vectors, int matrices = 1) {
  for (const lanes_rule& rule : lanes_rules) {
    if (vectors <= rule.vectors) {
      return &rule;
    }
  }
  return matrices > 1 && vectors <= longest_of_two.vectors ? &longest_of_two : nullptr;
}

row_plan in_lanes(const lanes_rule& rule) {
  row_plan plan;
  plan.kind = row_plan_kind::lanes;
  plan.vectors = rule.each;
  plan.lanes = rule.lanes;
  plan.threads = lane_block_threads;
  return plan;
}

/// Two blocks on a multiprocessor, or more of the smaller ones: some read while others write. Short
/// rows have fewer vectors a thread, so that more of their elements stay in registers.
row_plan in_block(std::int64_t vectors, const device_limits& device) {
  constexpr std::int64_t short_row = 512;
  row_plan plan;
  plan.kind = row_plan_kind::block;
  plan.vectors = vectors <= short_row ? vectors_each / 2 : vectors_each;
  plan.threads = std::max(round_up((vectors + plan.vectors - 1) / plan.vectors, device.lanes),
                          2 * device.lanes);
  return plan;
}

/// Two blocks, or as few more as have at most `most_part` vectors each.
row_plan in_cluster(std::int64_t vectors, int matrices, const device_limits& device) {
  const int each = vectors_each / matrices;
  const std::int64_t most_part = std::int64_t{cluster_threads} * each;
  row_plan plan;
  plan.kind = row_plan_kind::cluster;
  plan.vectors = vectors_each;
  plan.blocks = 2;
  while (plan.blocks * most_part < vectors && plan.blocks < device.cluster_blocks) {
    plan.blocks *= 2;
  }
  plan.part = round_up((vectors + plan.blocks - 1) / plan.blocks, 2);  // whole sectors
  plan.threads = std::max(round_up((plan.part + each - 1) / each, device.lanes), 4 * device.lanes);
  return plan;
}

row_plan in_chunks(std::int64_t vectors, int matrices = 1) {
  const std::int64_t of_chunk = chunk_vectors_of(matrices);
  row_plan plan;
  plan.kind = row_plan_kind::chunks;
  plan.vectors = chunk_vectors_each_of(matrices);
  // A row without columns is a chunk, too: of nothing.
  plan.chunks = static_cast<int>(std::max<std::int64_t>((vectors + of_chunk - 1) / of_chunk, 1));
  plan.threads = least_chunk_threads;
  while (plan.threads < chunk_threads && plan.threads * plan.vectors < vectors) {
    plan.threads *= 2;
  }
  return plan;
}

row_plan in_chunks_read_twice(std::int64_t vectors, int matrices, const device_limits& device) {
  row_plan plan = in_chunks(vectors, matrices);
  if (device.cache_bytes > 0) {  // half of it is for what is written
    plan.batch_rows =
        std::max<std::int64_t>(device.cache_bytes / 2 / (vectors * matrices * vector_bytes), 1);
  }
  return plan;
}

/// Chunks that all multiprocessors hold at once.
std::int64_t resident_of(const row_shape& shape, const device_limits& device) {
  return std::int64_t{device.multiprocessors} *
         resident_chunks(static_cast<std::size_t>(shape.element_bytes), shape.matrices);
}

/// Chunks of each block of a cluster that holds a row, one in registers, the others in shared
/// memory; 0 if there is no room. As few as the cluster's blocks allow.
int chunks_held(int chunks, const row_shape& shape, const device_limits& device) {
  const int blocks = device.cluster_blocks;
  const bool holds_several = shape.matrices > 1 && shape.alike && device.copies_in_bulk;
  if (chunks > blocks * (holds_several ? most_chunks_held : 1)) {
    return 0;
  }
  return holds_several ? (chunks + blocks - 1) / blocks : 1;
}

}  // namespace

std::int64_t vectors_of(const row_shape& shape, int alignment) {
  const std::int64_t width = vector_bytes / shape.element_bytes;
  const std::int64_t skew =
      alignment > shape.alignment ? (alignment - shape.alignment) / shape.element_bytes : 0;
  return (shape.cols + skew + width - 1) / width;
}

row_plan plan_map(const row_shape& shape, const device_limits& device, plan_name forced) {
  constexpr std::int64_t vectors_of_part = cluster_threads * vectors_each;
  const lanes_rule* const rule = lanes_rule_for(vectors_of(shape) * shape.matrices, shape.matrices);
  const std::int64_t vectors = vectors_of(shape, 2 * vector_bytes);  // in whole sectors
  const std::int64_t all = vectors * shape.matrices;
  const bool block_has_room = all <= row_threads * vectors_each;
  const bool wide = shape.element_bytes == 8;
  const bool cluster_has_room =
      all <= device.cluster_blocks * vectors_of_part && (shape.matrices > 1 || !wide);
  if (forced == plan_name::block && block_has_room) {
    return in_block(all, device);
  }
  if (forced == plan_name::cluster && cluster_has_room && vectors >= least_shared) {
    return in_cluster(vectors, shape.matrices, device);
  }
  if (forced >= plan_name::chunks && forced <= plan_name::ring) {
    return in_chunks_read_twice(vectors, shape.matrices, device);
  }
  if (rule != nullptr) {
    return in_lanes(*rule);
  }
  const cluster_rule& cluster = shape.matrices == 1 && device.bytes_a_clock >= quick_memory
                                    ? quick_memory_rule
                                    : cluster_rules[shape.matrices - 1];
  if (cluster_has_room && vectors >= cluster.least && vectors <= cluster.most &&
      !(wide && block_has_room)) {
    return in_cluster(vectors, shape.matrices, device);
  }
  const bool by_chunks = device.cluster_blocks > 0 && (wide ? vectors : all) > vectors_of_part;
  if (block_has_room && !by_chunks) {
    return in_block(all, device);
  }
  return in_chunks_read_twice(vectors, shape.matrices, device);
}

row_plan plan_rows(const row_plan& any, std::int64_t rows, const row_shape& shape,
                   const device_limits& device, plan_name forced) {
  row_plan plan = any;
  if (plan.kind != row_plan_kind::chunks || plan.chunks > most_chunks_read_by_all ||
      forced == plan_name::chunks) {
    return plan;
  }
  const bool any_pass = forced < plan_name::clustered || forced > plan_name::ring;
  const int held = chunks_held(plan.chunks, shape, device);
  const bool cluster_has_room = plan.chunks > 1 && held > 0;
  const bool wide = shape.element_bytes == 8;
  const std::int64_t resident = resident_of(shape, device);
  const std::int64_t slot_bytes = std::int64_t{slot_vectors_of(shape.matrices)} * vector_bytes;
  const std::int64_t own_bytes =  // beside the chunks; the gradients' states are sums
      shape.matrices > 1 ? 1280
      : wide             ? 3072
                         : 2048;
  const auto slots = static_cast<int>(
      std::min<std::int64_t>((device.shared_bytes - own_bytes) / slot_bytes, most_ring_slots));
  // A row has at most half of all slots, so that others are read while it is written.
  const bool ring_has_room = device.runs_together && device.copies_in_bulk &&
                             2 * plan.chunks <= device.multiprocessors * slots;
  const bool few_rows = rows * plan.chunks <= resident;
  // f64 has more to compute: rings are quicker for many rows. Few rows of which blocks of a cluster
  // would hold several chunks have more blocks together.
  const bool clustered_is_quicker =
      held == 1 ? !wide || few_rows || !ring_has_room : !(few_rows && device.runs_together);
  if (cluster_has_room && (any_pass ? clustered_is_quicker : forced == plan_name::clustered)) {
    plan.pass = second_pass::clustered;
    plan.blocks = (plan.chunks + held - 1) / held;
    plan.batch_rows = 0;
    return plan;
  }
  if (few_rows && rows <= most_rows_exchanged && device.runs_together &&
      !(forced == plan_name::ring && ring_has_room)) {
    plan.pass = second_pass::together;
    return plan;
  }
  if (ring_has_room) {
    plan.pass = second_pass::ring;
    plan.ring_blocks = device.multiprocessors;
    plan.ring_slots = slots;
    plan.batch_rows = std::min(most_rows_exchanged, most_chunks_exchanged / plan.chunks);
  }
  return plan;
}

row_plan plan_once(const row_shape& shape, const packet_warps& warps, const device_limits& device,
                   plan_name forced) {
  const std::int64_t vectors = vectors_of(shape);
  const lanes_rule* const rule = lanes_rule_for(vectors);
  if (rule != nullptr && forced != plan_name::block && forced != plan_name::cluster) {
    row_plan plan = in_lanes(*rule);
    plan.lanes = std::max(plan.lanes, shape.element_bytes / 2);  // a packet's
    return plan;
  }
  const auto threads_for = [&](std::int64_t part, int each) {
    const std::int64_t of_warp = std::int64_t{device.lanes} * each - warps.shared;
    return static_cast<int>((part + of_warp - 1) / of_warp) * device.lanes;
  };
  row_plan plan;
  plan.kind = row_plan_kind::block;
  plan.vectors = vectors <= warps.short_row ? vectors_each / 2 : vectors_each;
  plan.threads = std::max(threads_for(vectors, plan.vectors), 2 * device.lanes);
  if (plan.threads <= warps.most_threads && forced != plan_name::cluster) {
    return plan;
  }
  plan.kind = row_plan_kind::cluster;
  plan.vectors = vectors_each;
  for (plan.blocks = 2; plan.blocks <= device.cluster_blocks; plan.blocks *= 2) {
    plan.part = round_up((vectors + plan.blocks - 1) / plan.blocks, 2);
    plan.threads = threads_for(plan.part, plan.vectors);
    const bool is_last = 2 * plan.blocks > device.cluster_blocks;
    if (plan.threads <=
        (is_last ? warps.most_threads : std::min(warps.most_threads, cluster_threads))) {
      return plan;
    }
  }
  plan.kind = row_plan_kind::chunks;
  return plan;
}

row_plan plan_pass(const row_shape& shape, plan_name forced) {
  const std::int64_t vectors = vectors_of(shape);
  const lanes_rule* const rule = lanes_rule_for(vectors);
  if (rule != nullptr && forced != plan_name::chunks) {
    return in_lanes(*rule);
  }
  return in_chunks(vectors);
}

row_plan plan_reduction(const row_shape& shape, std::int64_t rows, const device_limits& device,
                        plan_name forced) {
  row_plan plan = plan_pass(shape, forced);
  const bool cluster_has_room = plan.chunks > 1 && plan.chunks <= device.cluster_blocks;
  const bool few_rows = rows * plan.chunks <= resident_of(shape, device);
  // Many rows of 16 bits are slower by it, those of f64 were not measured.
  const bool is_quicker = few_rows || shape.element_bytes == 4;
  if (cluster_has_room &&
      (forced == plan_name::any ? is_quicker : forced == plan_name::clustered)) {
    plan.pass = second_pass::clustered;
    plan.blocks = plan.chunks;
  }
  return plan;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
