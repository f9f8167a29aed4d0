// SPDX-License-Identifier: Apache-2.0
/// \file
/// Plans in words.
#include <gpu/plan/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

std::string numbered(const char* before, std::int64_t n, const char* after) {
  return before + std::to_string(n) + after;
}

}  // namespace

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
    case topk_plan_kind::packs:
      return plan_name::packs;
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
    case topk_plan_kind::packs:
      return text + numbered(", of ", plan.pack, " elements") +
             numbered(", ", plan.searching, " lanes") +
             numbered(", folds of ", plan.row.lanes, "") +
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
