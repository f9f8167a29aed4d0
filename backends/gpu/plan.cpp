// SPDX-License-Identifier: Apache-2.0
#include "plan.hpp"

#include <algorithm>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

constexpr int vector_bytes = 16;
constexpr int lane_block_threads = 256;

/// Rows of up to `vectors` vectors are worked on by so many lanes, with so many vectors each. Four
/// vectors hide the latency of memory; fewer lanes need fewer shuffles.
struct lanes_rule {
  int vectors;
  int lanes;
  int each;
};
constexpr lanes_rule lanes_rules[] = {{1, 1, 1},  {2, 2, 1},   {4, 2, 2},    {8, 2, 4},   {16, 4, 4},
                                      {32, 8, 4}, {64, 16, 4}, {128, 32, 4}, {256, 32, 8}};

/// Longer rows: one block, or the blocks of a cluster. `each` vectors of a thread; `block_vectors`
/// of a block.
struct block_rule {
  std::int64_t vectors;
  int blocks;
  int each;
};
constexpr block_rule block_rules[] = {
    {1024, 1, 4},    {8192, 1, 8},
    {16384, 4, 8},   // 64 KiB a block: two blocks on a multiprocessor
    {32768, 8, 8},   {65536, 16, 8},
    {131072, 16, 8},  // 128 KiB a block
};

/// Of the groups' maxima that a block keeps in shared memory.
constexpr std::int64_t most_key_bytes = 65536;

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

row_plan in_blocks(std::int64_t vectors, const block_rule& rule, const device_limits& device) {
  row_plan plan;
  plan.kind = rule.blocks > 1 ? row_plan_kind::cluster : row_plan_kind::block;
  plan.vectors = rule.each;
  plan.blocks = rule.blocks;
  plan.lanes = device.lanes;
  const std::int64_t all = std::int64_t{rule.blocks} * rule.each;
  plan.threads = std::max(round_up((vectors + all - 1) / all, device.lanes), 2 * device.lanes);
  return plan;
}

row_plan in_chunks(std::int64_t vectors, const device_limits& device) {
  row_plan plan;
  plan.kind = row_plan_kind::chunks;
  plan.vectors = chunk_vectors_each;
  plan.threads = chunk_threads;
  plan.lanes = device.lanes;
  plan.chunks = static_cast<int>((vectors + chunk_vectors - 1) / chunk_vectors);
  return plan;
}

}  // namespace

std::int64_t vectors_of(const row_shape& shape) {
  const std::int64_t width = vector_bytes / shape.element_bytes;
  const std::int64_t skew = shape.aligned ? 0 : width - 1;
  return (shape.cols + skew + width - 1) / width;
}

row_plan plan_map(const row_shape& shape, const device_limits& device) {
  const std::int64_t vectors = vectors_of(shape);
  if (const lanes_rule* rule = lanes_rule_for(vectors)) {
    return in_lanes(*rule);
  }
  for (const block_rule& rule : block_rules) {
    if (vectors <= rule.vectors && rule.blocks <= device.cluster_blocks) {
      return in_blocks(vectors, rule, device);
    }
  }
  return in_chunks(vectors, device);
}

row_plan plan_reduction(const row_shape& shape, const device_limits& device) {
  const std::int64_t vectors = vectors_of(shape);
  if (const lanes_rule* rule = lanes_rule_for(vectors)) {
    return in_lanes(*rule);
  }
  for (const block_rule& rule : block_rules) {
    if (vectors <= rule.vectors && vectors <= 2 * chunk_vectors) {
      return in_blocks(vectors, rule, device);
    }
  }
  return in_chunks(vectors, device);
}

row_plan plan_second_pass(const row_shape& shape, const device_limits& device) {
  const std::int64_t vectors = vectors_of(shape);
  if (const lanes_rule* rule = lanes_rule_for(vectors)) {
    return in_lanes(*rule);
  }
  return in_chunks(vectors, device);
}

topk_plan plan_topk(const row_shape& shape, std::int64_t rows, std::int64_t k,
                    const device_limits& device) {
  const std::int64_t vectors = vectors_of(shape);
  const std::int64_t most_groups = most_key_bytes / (shape.element_bytes == 8 ? 8 : 4);
  topk_plan plan;
  plan.chunks = in_chunks(vectors, device).chunks;
  plan.group_vectors = 0;
  for (const int group : {32, 8, 2, 1}) {
    const std::int64_t groups = (vectors + group - 1) / group;
    // Twice as many groups as wanted elements: then hardly more elements than wanted are above the
    // k-th largest group's maximum.
    const bool enough = groups >= (group == 1 ? 2 : 4) * k;
    const bool too_many = group < 32 && groups > most_groups;
    if (enough && !(too_many && plan.group_vectors > 0)) {
      plan.group_vectors = group;
      plan.groups = groups;
      if (groups >= 16 * k || groups > most_groups / 2) {
        break;
      }
    }
  }
  std::int64_t capacity = 256;
  while (capacity < (plan.group_vectors > 0 ? 2 : 1) * k) {
    capacity *= 2;
  }
  plan.capacity = static_cast<int>(capacity);
  plan.split = plan.groups > most_groups ||
               (plan.chunks > 1 && rows < 2 * std::int64_t{device.multiprocessors});
  return plan;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
