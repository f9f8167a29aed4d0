// SPDX-License-Identifier: Apache-2.0
/// \file
/// Plans of top-k.
#include <gpu/plan/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

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

/// Chunks of a block, so many that rows with fewer lists are still work for the device's blocks
/// several times over. A row has no more lists than are merged quickly, and a block no more chunks
/// than there is room for their states.
int span_of_chunks(std::int64_t chunks, std::int64_t rows, const device_limits& device) {
  constexpr std::int64_t most_lists = 256;
  const std::int64_t blocks = 6 * std::int64_t{device.multiprocessors};
  const std::int64_t lists = std::clamp<std::int64_t>((blocks + rows - 1) / rows, 1, most_lists);
  return static_cast<int>(std::min<std::int64_t>((chunks + lists - 1) / lists, most_span));
}

/// What is asked, and what follows from it for all ways.
struct topk_question {
  const row_shape& shape;
  std::int64_t rows;
  std::int64_t k;
  const device_limits& device;
  plan_name forced;

  std::int64_t vectors = vectors_of(shape);
  row_plan pass = plan_pass(shape, forced);
  row_plan chunked = plan_pass(shape, plan_name::chunks);

  [[nodiscard]] bool any() const { return !is_of_topk(forced); }
  [[nodiscard]] bool is_forced(plan_name name) const { return forced == name; }
  [[nodiscard]] bool wide() const { return shape.element_bytes == 8; }
  [[nodiscard]] bool by_lanes() const { return pass.kind == row_plan_kind::lanes; }
  /// Whether lists of candidates can have so many.
  [[nodiscard]] bool may_list() const { return has_packed_entries(shape) && k <= most_listed; }
};

/// Each of these is whether rows are better worked on so, or are forced to, and then the plan of
/// it.

/// Of a pack of pack_sizes: instructions of a lane to sort one and to find the best of two, about,
/// between those of f32 and of 16 bits (counted in the code for sm_90), and what was quickest on an
/// H200 (docs/notes.md).
struct pack_rule {
  int sort;
  int merge;
  std::int64_t bytes;  ///< of a warp's rows and their lists, at most, but for what pack_pitch adds
};
constexpr pack_rule pack_rules[] = {
    {90, 45, 8192}, {200, 110, 9728}, {360, 150, 9216}, {530, 200, 9728}};
static_assert(std::size(pack_rules) == std::size(pack_sizes));

/// Whether the rows that so many lanes each of a block's warps look through fit into its shared
/// memory.
bool have_room(const topk_question& of, int searching, int pack) {
  const int warps = of.pass.threads / of.device.lanes;
  return warps * std::int64_t{bytes_of_packs(of.device.lanes / searching,
                                             static_cast<int>(of.vectors), searching, pack)} <=
         of.device.shared_bytes;
}

/// Lanes of a row: those of many rows so many that they do the least together, those of few so many
/// that each does the least.
int searching_lanes(const topk_question& of, const pack_rule& rule, int pack) {
  constexpr int busy_warps = 12;  // of a multiprocessor
  const std::int64_t row_bytes = of.vectors * vector_bytes;
  const int each = pack_of_lane(pack);
  const std::int64_t packs = (row_bytes / of.shape.element_bytes + each - 1) / each;
  const auto bytes = [&](int lanes) {
    return of.device.lanes / lanes * (row_bytes + 4 * (pack_list_words(pack) + pack_share_words));
  };
  const auto time = [&](int lanes) {
    std::int64_t of_lane = (packs + lanes - 1) / lanes * (rule.sort + rule.merge);
    for (int others = pack / each; others < lanes; others *= 2) {
      of_lane += rule.merge + each;
    }
    return of_lane * std::max<std::int64_t>(of.rows * lanes / of.device.lanes,
                                            busy_warps * of.device.multiprocessors);
  };
  int best = std::max(of.pass.lanes / most_folds_each, pack / each);
  while (best < of.pass.lanes && (bytes(best) > rule.bytes || !have_room(of, best, pack))) {
    best *= 2;
  }
  for (int lanes = 2 * best; lanes <= of.pass.lanes; lanes *= 2) {
    best = time(lanes) < time(best) ? lanes : best;
  }
  return best;
}

/// Whether packs are quicker than ranks for k to most_ranked, of f32: where a lane would have many
/// vectors, or a row has few.
bool packs_few(const topk_question& of) {
  return of.vectors <= 12 || (of.pass.vectors == 8 && of.vectors <= 64);
}

bool by_packs(const topk_question& of, topk_plan& plan) {
  constexpr std::int64_t most_vectors = 96;  // of f32, to k = 16: beyond, a bound is quicker
  const bool f32 = of.shape.element_bytes == 4;
  const bool ranks = of.k <= most_ranked && of.pass.vectors >= least_ranked_vectors;
  const bool is_quicker =
      of.k > 1 && (ranks ? f32 && packs_few(of) : !f32 || of.k > 16 || of.vectors <= most_vectors);
  if (of.wide() || !of.by_lanes() || of.k > pack_sizes[std::size(pack_sizes) - 1] ||
      !(of.any() ? is_quicker : of.is_forced(plan_name::packs))) {
    return false;
  }
  std::size_t size = 0;
  while (pack_sizes[size] < of.k) {
    ++size;
  }
  const std::int64_t busy_warps = 4 * std::int64_t{of.device.multiprocessors};
  plan.kind = topk_plan_kind::packs;
  plan.row = of.pass;
  plan.pack = pack_sizes[size];
  plan.searching = searching_lanes(of, pack_rules[size], plan.pack);
  plan.warp_rows = static_cast<int>(std::clamp<std::int64_t>(
      (of.rows + busy_warps - 1) / busy_warps, 1, of.device.lanes / plan.searching));
  return true;
}

bool by_ranks(const topk_question& of, topk_plan& plan) {
  if (of.wide() || !of.by_lanes() || of.k > most_ranked ||
      (of.k > 1 && of.pass.vectors < least_ranked_vectors)) {
    return false;
  }
  // Of many rows of all lanes of a warp it is quicker to keep what exceeds a bound.
  const bool is_quicker = of.pass.lanes < of.device.lanes || of.k == 1 ||
                          of.rows < 16 * std::int64_t{of.device.multiprocessors};
  if (!(of.any() ? is_quicker : of.is_forced(plan_name::ranked))) {
    return false;
  }
  plan.kind = topk_plan_kind::lanes;
  plan.row = of.pass;
  plan.ranked = of.k == 1 ? 1 : most_ranked;
  return true;
}

/// All elements of a row are sorted, by lanes that need not be those of row_plan.
bool by_sorting(const topk_question& of, topk_plan& plan) {
  const bool has_room = of.vectors <= std::int64_t{sorted_vectors} * of.device.lanes;
  const bool is_quicker = of.k > 32;  // of rows beyond packs, and few that packs leave
  if (of.wide() || !of.by_lanes() || !has_room ||
      !(of.any() ? is_quicker : of.is_forced(plan_name::sorted))) {
    return false;
  }
  plan.kind = topk_plan_kind::lanes;
  plan.row = of.pass;
  plan.row.vectors = sorted_vectors;
  plan.row.lanes = 1;
  while (std::int64_t{plan.row.lanes} * sorted_vectors < of.vectors) {
    plan.row.lanes *= 2;
  }
  plan.folds_as_pass = plan.row.lanes == of.pass.lanes && plan.row.vectors == of.pass.vectors;
  return true;
}

/// A row by a warp; a longer one for smaller k, and if there is work for many warps. Its state has
/// the same bits as by the other way.
bool above_a_bound(const topk_question& of, topk_plan& plan) {
  const std::int64_t most_bounded = of.shape.element_bytes == 2                ? 8
                                    : of.chunked.threads > least_chunk_threads ? 1
                                                                               : 16;
  const bool many_rows = of.rows >= 16 * std::int64_t{of.device.multiprocessors};
  const bool is_quicker = of.by_lanes() || (of.k <= most_bounded && many_rows);
  if (!of.may_list() || plan.chunks != 1 ||
      !(of.any() ? is_quicker : of.is_forced(plan_name::bounded))) {
    return false;
  }
  plan.kind = topk_plan_kind::bounded;
  plan.threads = of.by_lanes() ? of.device.lanes : of.pass.threads;
  // A warp that holds a row folds it like as many lanes with fewer vectors each.
  plan.folds_as_pass = plan.threads == (of.by_lanes() ? of.pass.lanes : of.pass.threads);
  return true;
}

bool by_lists(const topk_question& of, topk_plan& plan) {
  // Of ascending rows all elements of k vectors are candidates, and k more may equal the least.
  const std::int64_t candidates = of.k * (vector_bytes / of.shape.element_bytes + 1);
  if (!of.may_list() || candidates > most_candidates ||
      !(of.any() || of.is_forced(plan_name::lists))) {
    return false;
  }
  plan.kind = topk_plan_kind::lists;
  plan.span = span_of_chunks(plan.chunks, of.rows, of.device);
  plan.threads = of.chunked.threads;
  while (plan.threads < chunk_threads && plan.threads < 2 * of.k) {  // the bound needs k threads
    plan.threads *= 2;
  }
  return true;
}

std::int64_t capacity_for(std::int64_t entries) {
  std::int64_t capacity = 256;
  while (capacity < entries) {
    capacity *= 2;
  }
  return capacity;
}

void by_selection(const topk_question& of, topk_plan& plan) {
  const selection_rule& most = selection_rule_for(of.device);
  const std::int64_t most_groups = most.keys / (of.wide() ? 8 : 4);
  const std::int64_t width = vector_bytes / of.shape.element_bytes;
  const std::int64_t elements = of.vectors * width;
  std::int64_t capacity = capacity_for(2 * of.k);
  for (const group_rule& rule : group_rules) {
    if (of.is_forced(plan_name::elements) ||
        (!of.is_forced(plan_name::groups) && rule.vectors == 1 && elements <= few_elements)) {
      break;
    }
    const std::int64_t groups = (of.vectors + rule.vectors - 1) / rule.vectors;
    if (enough_groups(rule, groups, rule.vectors * width, of.k) &&
        capacity * std::int64_t{sizeof(unsigned)} <= most.list) {
      plan.group_vectors = rule.vectors;
      plan.groups = groups;
      break;
    }
  }
  constexpr std::int64_t most_quickly_sorted = sorted_each * chunk_threads;
  const std::int64_t most_entries = most.entries / (has_packed_entries(of.shape) ? 8 : 16);
  if (plan.group_vectors == 0) {
    capacity = capacity_for(of.k + of.k / 4);  // a few more than k are found sooner than just k
    if (capacity > most_entries ||
        (of.k <= most_quickly_sorted && capacity > most_quickly_sorted)) {
      capacity = capacity_for(of.k);
    }
  }
  plan.capacity = static_cast<int>(capacity);
  plan.shared_entries = capacity <= most_entries;
  const std::int64_t states =
      std::int64_t{plan.chunks} * (chunk_threads / of.device.lanes + 1) * (of.wide() ? 16 : 8);
  const bool few_rows = of.rows < 2 * std::int64_t{of.device.multiprocessors};
  plan.split = plan.groups > most_groups || states > most.states || (plan.chunks > 1 && few_rows);
  if (plan.group_vectors == 0 && !plan.split && elements <= most_groups) {
    plan.groups = elements;
  }
}

/// The tables' plan, or the forced one, if the shape can have it; else any.
topk_plan topk_plan_of(const topk_question& of) {
  topk_plan plan;
  plan.group_vectors = 0;
  if (by_packs(of, plan) || by_ranks(of, plan) || by_sorting(of, plan)) {
    return plan;
  }
  plan.chunks = of.chunked.chunks;
  if (above_a_bound(of, plan)) {
    return plan;
  }
  const bool lists = by_lists(of, plan);
  plan.folds_as_pass = of.pass.kind == row_plan_kind::chunks && of.pass.threads == plan.threads;
  if (!lists) {
    by_selection(of, plan);
  }
  return plan;
}

}  // namespace

topk_plan plan_topk(const row_shape& shape, std::int64_t rows, std::int64_t k,
                    const device_limits& device, plan_name forced) {
  const topk_plan plan = topk_plan_of({shape, rows, k, device, forced});
  return !is_of_topk(forced) || name_of(plan) == forced
             ? plan
             : topk_plan_of({shape, rows, k, device, plan_name::any});
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
