// SPDX-License-Identifier: Apache-2.0
#include <gpu/plan/plan.hpp>

#include <algorithm>
#include <limits>
#include <string>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

constexpr std::int64_t place_bytes = std::int64_t{place_vectors} * vector_bytes;
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
/// What a test can have shared so.
constexpr std::int64_t least_shared = 512;

/// What a block that selects the top k of a row keeps in shared memory, at most: the groups'
/// maxima, what it sorts, the list of chosen groups, the states of chunks.
struct selection_rule {
  std::int64_t shared_bytes;  ///< of the device, at least
  std::int64_t keys;
  std::int64_t entries;
  std::int64_t list;
  std::int64_t states;
};
constexpr selection_rule selection_rules[] = {
    {220 << 10, 64 << 10, 64 << 10, 128 << 10, 24 << 10},
    // Devices with less, among them NVIDIA's before sm_90. AMD's 64 KiB of LDS are those of a
    // compute unit: for common k a block takes half of them or less, and two or more share it.
    {0, 16 << 10, 16 << 10, 32 << 10, 8 << 10}};

/// Top-k by groups: of so many vectors, if there are so many times k of them. The larger the
/// groups, the fewer maxima are kept and searched; the fewer groups, the more elements exceed the
/// k-th largest maximum, most where large ones are neighbours as in a language model's logits, and
/// of large groups more is read again.
struct group_rule {
  int vectors;
  int groups;
};
constexpr group_rule group_rules[] = {{32, 16}, {8, 8}, {4, 6}, {2, 6}, {1, 2}};

/// Fewer times k are enough of groups of few elements where their maxima are so many that halving
/// them saves more than the elements beyond cost.
struct crowd_rule {
  std::int64_t elements;  ///< of a group, at most
  std::int64_t groups;    ///< at least
  double times_k;
};
constexpr crowd_rule crowd_rules[] = {{16, 2000, 3}, {32, 3000, 3.5}};

bool enough_groups(const group_rule& rule, std::int64_t groups, std::int64_t elements,
                   std::int64_t k) {
  if (groups >= rule.groups * k) {
    return true;
  }
  for (const crowd_rule& crowd : crowd_rules) {
    if (elements <= crowd.elements) {
      return groups >= crowd.groups &&
             static_cast<double>(groups) >= crowd.times_k * static_cast<double>(k);
    }
  }
  return false;
}

/// Up to so many elements compete by themselves sooner than by their vectors' maxima.
constexpr std::int64_t few_elements = 2048;

const selection_rule& selection_rule_for(const device_limits& device) {
  return device.shared_bytes >= selection_rules[0].shared_bytes ? selection_rules[0]
                                                                : selection_rules[1];
}

int round_up(std::int64_t n, int multiple) {
  return static_cast<int>((n + multiple - 1) / multiple * multiple);
}

const lanes_rule* lanes_rule_for(std::int64_t vectors) {
  for (const lanes_rule& rule : lanes_rules) {
    if (vectors <= rule.vectors) {
      return &rule;
    }
  }
  return nullptr;
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

/// Two blocks, or as few more as have at most `most_part` vectors each. `each`: of a thread, of
/// each matrix.
row_plan in_cluster(std::int64_t vectors, int matrices, int each, const device_limits& device) {
  const std::int64_t most_part = std::int64_t{cluster_threads} * each;
  row_plan plan;
  plan.kind = row_plan_kind::cluster;
  plan.vectors = each * matrices;
  plan.blocks = 2;
  while (plan.blocks * most_part < vectors && plan.blocks < device.cluster_blocks) {
    plan.blocks *= 2;
  }
  plan.part = round_up((vectors + plan.blocks - 1) / plan.blocks, 2);  // whole sectors
  plan.threads = std::max(round_up((plan.part + each - 1) / each, device.lanes), 4 * device.lanes);
  return plan;
}

row_plan in_chunks(std::int64_t vectors) {
  row_plan plan;
  plan.kind = row_plan_kind::chunks;
  plan.vectors = chunk_vectors_each;
  // A row without columns is a chunk, too: of nothing.
  plan.chunks =
      static_cast<int>(std::max<std::int64_t>((vectors + chunk_vectors - 1) / chunk_vectors, 1));
  plan.threads = least_chunk_threads;
  while (plan.threads < chunk_threads && plan.threads * chunk_vectors_each < vectors) {
    plan.threads *= 2;
  }
  return plan;
}

/// Chunks of a block, so many that rows with fewer lists are still work for the device's blocks
/// several times over. A row has no more lists than are merged quickly, and a block no more chunks
/// than there is room for their states.
int span_of_chunks(std::int64_t chunks, std::int64_t rows, const device_limits& device) {
  constexpr std::int64_t most_lists = 256;
  const std::int64_t blocks = 6 * std::int64_t{device.multiprocessors};
  const std::int64_t lists = std::clamp<std::int64_t>((blocks + rows - 1) / rows, 1, most_lists);
  return static_cast<int>(std::min<std::int64_t>((chunks + lists - 1) / lists, most_span));
}

row_plan in_chunks_read_twice(std::int64_t vectors, int matrices, const device_limits& device) {
  row_plan plan = in_chunks(vectors);
  if (device.cache_bytes > 0) {  // half of it is for what is written
    plan.batch_rows =
        std::max<std::int64_t>(device.cache_bytes / 2 / (vectors * matrices * vector_bytes), 1);
  }
  return plan;
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
  const lanes_rule* const rule = lanes_rule_for(vectors_of(shape) * shape.matrices);
  const std::int64_t vectors = vectors_of(shape, 2 * vector_bytes);  // in whole sectors
  const std::int64_t all = vectors * shape.matrices;
  const auto by_cluster = [&] {
    // What follows reads the matrices twice. Threads with twice the vectors are half as many.
    const bool fits = all <= device.cluster_blocks * vectors_of_part;
    return in_cluster(vectors, shape.matrices, fits ? vectors_each / shape.matrices : vectors_each,
                      device);
  };
  const bool block_has_room = all <= row_threads * vectors_each;
  const bool wide = shape.element_bytes == 8;
  const bool cluster_has_room =
      vectors <= device.cluster_blocks * vectors_of_part && (shape.matrices > 1 || !wide);
  if (forced == plan_name::block && block_has_room) {
    return in_block(all, device);
  }
  if (forced == plan_name::cluster && cluster_has_room && vectors >= least_shared) {
    return by_cluster();
  }
  if (forced >= plan_name::chunks && forced <= plan_name::ring) {
    return in_chunks_read_twice(vectors, shape.matrices, device);
  }
  if (rule != nullptr) {
    return in_lanes(*rule);
  }
  const cluster_rule& cluster = cluster_rules[shape.matrices - 1];
  if (cluster_has_room && vectors >= cluster.least && vectors <= cluster.most &&
      !(wide && block_has_room)) {
    return by_cluster();
  }
  const bool by_chunks = device.cluster_blocks > 0 && vectors > vectors_of_part;
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
  const bool cluster_has_room =
      shape.matrices == 1 && plan.chunks > 1 && plan.chunks <= device.cluster_blocks;
  // Registers of a multiprocessor for chunks, of 256 threads.
  const bool wide = shape.element_bytes == 8;
  const bool large = wide || shape.matrices > 1;
  const std::int64_t resident = device.multiprocessors * (large ? 2 : 4);
  const std::int64_t own_bytes = wide ? 3072 : 2048;  // beside the chunks
  const auto places = static_cast<int>(
      std::min<std::int64_t>((device.shared_bytes - own_bytes) / place_bytes, most_ring_places));
  // A row has at most half of all places, so that others are read while it is written.
  const bool ring_has_room = shape.matrices == 1 && device.runs_together && device.copies_in_bulk &&
                             2 * plan.chunks <= device.multiprocessors * places;
  const bool few_rows = rows * plan.chunks <= resident;
  // f64 has more to compute: rings are quicker for many rows.
  const bool clustered_is_quicker = !wide || few_rows || !ring_has_room;
  if (cluster_has_room && (any_pass ? clustered_is_quicker : forced == plan_name::clustered)) {
    plan.pass = second_pass::clustered;
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
    plan.ring_places = places;
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

namespace {

/// The tables' plan, or the forced one, if the shape can have it; else any.
topk_plan topk_plan_of(const row_shape& shape, std::int64_t rows, std::int64_t k,
                       const device_limits& device, plan_name forced) {
  const auto is_forced = [&](plan_name name) { return forced == name; };
  const bool any = !is_of_topk(forced);
  const selection_rule& most = selection_rule_for(device);
  const bool wide = shape.element_bytes == 8;
  const std::int64_t vectors = vectors_of(shape);
  const std::int64_t most_groups = most.keys / (wide ? 8 : 4);
  const auto capacity_for = [](std::int64_t entries) {
    std::int64_t capacity = 256;
    while (capacity < entries) {
      capacity *= 2;
    }
    return capacity;
  };
  topk_plan plan;
  plan.group_vectors = 0;
  const row_plan pass = plan_pass(shape, forced);
  const bool by_lanes = pass.kind == row_plan_kind::lanes;
  if (!wide && by_lanes) {
    constexpr int least_ranked = 8;
    // Of many rows of all lanes of a warp it is quicker to keep what exceeds a bound.
    const std::int64_t most_rows =
        std::int64_t{device.multiprocessors} * (k > 8 && shape.element_bytes == 2 ? 48 : 16);
    const bool lanes_are_quicker = pass.lanes < device.lanes || k > 16 || rows < most_rows;
    const bool ranks = any ? k == 1 || lanes_are_quicker : is_forced(plan_name::ranked);
    if (ranks && k == 1) {
      plan.ranked = 1;
    } else if (ranks && pass.vectors >= least_ranked_vectors && k <= most_ranked) {
      plan.ranked = least_ranked;
      while (plan.ranked < k) {
        plan.ranked *= 2;
      }
    }
    const bool sorts = (any || is_forced(plan_name::sorted)) && plan.ranked == 0 &&
                       pass.vectors <= most_sorted_vectors &&
                       (pass.vectors & (pass.vectors - 1)) == 0;
    if (plan.ranked > 0 || sorts) {
      plan.kind = topk_plan_kind::lanes;
      plan.row = pass;
      return plan;
    }
  }
  const row_plan chunked = in_chunks(vectors);
  plan.chunks = chunked.chunks;
  const bool few_rows = rows < 2 * std::int64_t{device.multiprocessors};
  // A row by a warp; a longer one for smaller k, and if there is work for many warps. Its state has
  // the same bits as by the other way.
  const std::int64_t most_bounded = shape.element_bytes == 2                ? 8
                                    : chunked.threads > least_chunk_threads ? 1
                                                                            : 16;
  const bool many_rows = rows >= 16 * std::int64_t{device.multiprocessors};
  const bool bound_is_quicker = by_lanes || (k <= most_bounded && many_rows);
  if (has_packed_entries(shape) && plan.chunks == 1 && k <= most_listed &&
      (any ? bound_is_quicker : is_forced(plan_name::bounded))) {
    plan.kind = topk_plan_kind::bounded;
    plan.threads = by_lanes ? device.lanes : pass.threads;
    // A warp that holds a row folds it like as many lanes with fewer vectors each.
    plan.folds_as_pass = plan.threads == (by_lanes ? pass.lanes : pass.threads);
    return plan;
  }
  // Of ascending rows all elements of k vectors are candidates, and k more may equal the least.
  const std::int64_t candidates = k * (vector_bytes / shape.element_bytes + 1);
  if (has_packed_entries(shape) && k <= most_listed && candidates <= most_candidates &&
      (any || is_forced(plan_name::lists))) {
    plan.kind = topk_plan_kind::lists;
    plan.span = span_of_chunks(plan.chunks, rows, device);
    plan.threads = chunked.threads;
    while (plan.threads < chunk_threads && plan.threads < 2 * k) {  // the bound needs k threads
      plan.threads *= 2;
    }
  }
  plan.folds_as_pass = pass.kind == row_plan_kind::chunks && pass.threads == plan.threads;
  if (plan.kind == topk_plan_kind::lists) {
    return plan;
  }
  std::int64_t capacity = capacity_for(2 * k);
  const std::int64_t width = vector_bytes / shape.element_bytes;
  const std::int64_t elements = vectors * width;
  for (const group_rule& rule : group_rules) {
    if (is_forced(plan_name::elements) ||
        (!is_forced(plan_name::groups) && rule.vectors == 1 && elements <= few_elements)) {
      break;
    }
    const std::int64_t groups = (vectors + rule.vectors - 1) / rule.vectors;
    if (enough_groups(rule, groups, rule.vectors * width, k) &&
        capacity * std::int64_t{sizeof(unsigned)} <= most.list) {
      plan.group_vectors = rule.vectors;
      plan.groups = groups;
      break;
    }
  }
  constexpr std::int64_t most_quickly_sorted = sorted_each * chunk_threads;
  const std::int64_t most_entries = most.entries / (has_packed_entries(shape) ? 8 : 16);
  if (plan.group_vectors == 0) {
    capacity = capacity_for(k + k / 4);  // a few more than k are found sooner than just k
    if (capacity > most_entries || (k <= most_quickly_sorted && capacity > most_quickly_sorted)) {
      capacity = capacity_for(k);
    }
  }
  plan.capacity = static_cast<int>(capacity);
  plan.shared_entries = capacity <= most_entries;
  const std::int64_t states =
      std::int64_t{plan.chunks} * (chunk_threads / device.lanes + 1) * (wide ? 16 : 8);
  plan.split = plan.groups > most_groups || states > most.states || (plan.chunks > 1 && few_rows);
  if (plan.group_vectors == 0 && !plan.split && elements <= most_groups) {
    plan.groups = elements;
  }
  return plan;
}

std::string numbered(const char* before, std::int64_t n, const char* after) {
  return before + std::to_string(n) + after;
}

}  // namespace

topk_plan plan_topk(const row_shape& shape, std::int64_t rows, std::int64_t k,
                    const device_limits& device, plan_name forced) {
  const topk_plan plan = topk_plan_of(shape, rows, k, device, forced);
  return !is_of_topk(forced) || name_of(plan) == forced
             ? plan
             : topk_plan_of(shape, rows, k, device, plan_name::any);
}

plan_name name_of(const row_plan& plan) {
  switch (plan.kind) {
    case row_plan_kind::lanes:
      return plan_name::lanes;
    case row_plan_kind::block:
      return plan_name::block;
    case row_plan_kind::cluster:
      return plan_name::cluster;
    case row_plan_kind::chunks:
      break;
  }
  switch (plan.pass) {
    case second_pass::clustered:
      return plan_name::clustered;
    case second_pass::together:
      return plan_name::together;
    case second_pass::ring:
      return plan_name::ring;
    case second_pass::reads:
      break;
  }
  return plan_name::chunks;
}

plan_name name_of(const topk_plan& plan) {
  switch (plan.kind) {
    case topk_plan_kind::lanes:
      return plan.ranked > 0 ? plan_name::ranked : plan_name::sorted;
    case topk_plan_kind::bounded:
      return plan_name::bounded;
    case topk_plan_kind::lists:
      return plan_name::lists;
    case topk_plan_kind::selection:
      break;
  }
  return plan.group_vectors > 0 ? plan_name::groups : plan_name::elements;
}

std::string to_text(const row_plan& plan) {
  std::string text = plan_names[static_cast<std::size_t>(name_of(plan))];
  switch (plan.kind) {
    case row_plan_kind::lanes:
      text += numbered(", ", plan.lanes, " of a row");
      break;
    case row_plan_kind::block:
      text += numbered(", ", plan.threads, " threads");
      break;
    case row_plan_kind::cluster:
      text += numbered(", ", plan.blocks, " blocks") + numbered(" of ", plan.threads, " threads");
      break;
    case row_plan_kind::chunks:
      text += numbered(", ", plan.chunks, " of a row");
      break;
  }
  return text + numbered(", ", plan.vectors, " vectors each");
}

std::string to_text(const topk_plan& plan) {
  std::string text = plan_names[static_cast<std::size_t>(name_of(plan))];
  switch (plan.kind) {
    case topk_plan_kind::lanes:
      return text + (plan.ranked > 0 ? numbered(", best ", plan.ranked, " of each lane") : "") +
             numbered(", ", plan.row.lanes, " lanes") +
             numbered(", ", plan.row.vectors, " vectors each");
    case topk_plan_kind::bounded:
      return text + numbered(", folds of ", plan.threads, " threads");
    case topk_plan_kind::lists:
      return text + numbered(", ", plan.spans(), " of a row") +
             numbered(", ", plan.span, " chunks each") + numbered(", ", plan.threads, " threads");
    case topk_plan_kind::selection:
      break;
  }
  if (plan.group_vectors > 0) {
    text += numbered(", ", plan.groups, "") + numbered(" of ", plan.group_vectors, " vectors");
  }
  return text + numbered(", ", plan.capacity, " sorted") +
         (plan.split ? numbered(", ", plan.chunks, " chunks apart") : "");
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
