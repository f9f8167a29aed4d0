// SPDX-License-Identifier: Apache-2.0
#include <gpu/plan/shape.hpp>
#include <gpu/plan/sizes.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

std::size_t round_up(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

topk_scratch scratch_of(const core::topk_problem& p, const topk_plan& plan) {
  const bool wide = p.x.type == dtype::f64;
  const auto rows = static_cast<std::size_t>(p.x.rows);
  topk_scratch sizes;
  if (plan.kind == topk_plan_kind::lanes || plan.kind == topk_plan_kind::packs ||
      plan.kind == topk_plan_kind::bounded) {
    return sizes;
  }
  if (plan.kind == topk_plan_kind::lists) {
    if (plan.spans() > 1) {
      sizes.states = p.folds() ? round_up(rows * static_cast<std::size_t>(plan.chunks) * 8) : 0;
      sizes.lists = rows * static_cast<std::size_t>(plan.spans() * p.indices.cols) * 8;
    }
    return sizes;
  }
  if (plan.split) {
    sizes.keys = round_up(rows * static_cast<std::size_t>(plan.groups) * (wide ? 8 : 4));
    if (p.folds()) {
      sizes.states = round_up(rows * static_cast<std::size_t>(plan.chunks) * (wide ? 16 : 8));
    }
  }
  if (!plan.shared_entries) {
    const std::size_t entry = has_packed_entries(shape_of(p.x)) ? 8 : 16;
    sizes.entries = round_up(rows * static_cast<std::size_t>(plan.capacity) * entry);
  }
  return sizes;
}

std::size_t lists_scratch_bytes(const core::lists_problem& p) {
  const auto entries =
      static_cast<std::size_t>(p.values.rows) * static_cast<std::size_t>(p.values.cols);
  return entries * (sizeof(double) + sizeof(std::int64_t));
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
