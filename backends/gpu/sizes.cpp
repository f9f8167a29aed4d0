// SPDX-License-Identifier: Apache-2.0
/// \file
/// Scratch memory of calls.
#include "topk_calls.hpp"

#include <core/check.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

std::size_t round_up(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

std::size_t part_states_bytes(const row_plan& plan, std::int64_t rows, dtype input) {
  if (plan.kind != row_plan_kind::chunks) {
    return 0;
  }
  return static_cast<std::size_t>(rows) * (static_cast<std::size_t>(plan.chunks) + 1) * 2 *
         size_of(core::arithmetic_type(input));
}

topk_scratch scratch_of(const topk_call& call, const topk_plan& plan) {
  const bool wide = call.x.type == dtype::f64;
  const auto rows = static_cast<std::size_t>(call.x.rows);
  topk_scratch sizes;
  if (plan.kind == topk_plan_kind::lanes || plan.kind == topk_plan_kind::bounded) {
    return sizes;
  }
  if (plan.kind == topk_plan_kind::lists) {
    if (plan.spans() > 1) {
      sizes.states = call.folds() ? round_up(rows * static_cast<std::size_t>(plan.chunks) * 8) : 0;
      sizes.lists = rows * static_cast<std::size_t>(plan.spans() * call.k) * 8;
    }
    return sizes;
  }
  if (plan.split) {
    sizes.keys = round_up(rows * static_cast<std::size_t>(plan.groups) * (wide ? 8 : 4));
    if (call.folds()) {
      sizes.states = round_up(rows * static_cast<std::size_t>(plan.chunks) * (wide ? 16 : 8));
    }
  }
  if (!plan.shared_entries) {
    const std::size_t entry = has_packed_entries(call.x.shape()) ? 8 : 16;
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
