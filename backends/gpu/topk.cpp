// SPDX-License-Identifier: Apache-2.0
/// \file
/// topk and softmax_topk: check -> plan -> launch.
#include "queue_state.hpp"
#include "topk_calls.hpp"

#include <core/check_calls.hpp>

#include <algorithm>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

/// What a block sorts in shared memory; more is sorted in global memory.
constexpr std::size_t most_shared_entry_bytes = std::size_t{64} << 10;

std::size_t round_up(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

void run(queue::state& q, const topk_call& call) {
  const runtime::current_device current(q.device);
  const topk_plan plan = plan_topk(call.x.shape(), call.x.rows, call.k, q.limits());
  void* const scratch = q.scratch.at_least(scratch_of(call, plan).bytes());
  with_input(call.x.type, [&](auto in) {
    launch_topk<decltype(in)>(call, plan, scratch, q.stream.get(), q.properties.lanes);
  });
}

}  // namespace

topk_scratch scratch_of(const topk_call& call, const topk_plan& plan) {
  const bool wide = call.x.type == dtype::f64;
  const auto rows = static_cast<std::size_t>(call.x.rows);
  topk_scratch sizes;
  if (plan.split) {
    sizes.keys = round_up(rows * static_cast<std::size_t>(plan.groups) * (wide ? 8 : 4));
    if (call.folds()) {
      sizes.states = round_up(rows * static_cast<std::size_t>(plan.chunks) * (wide ? 16 : 8));
    }
  }
  // Entries of 16 bytes, where keys and columns do not fit into 8.
  const bool packed = !wide && call.x.cols < std::int64_t{0xffffffff};
  const std::size_t entries = static_cast<std::size_t>(plan.capacity) * (packed ? 8 : 16);
  if (entries > most_shared_entry_bytes) {
    sizes.entries = round_up(rows * entries);
  }
  return sizes;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

namespace softfold {
inline namespace SOFTFOLD_BACKEND {

using namespace gpu;

void topk(queue& q, const_matrix_ref x, matrix_ref values, matrix_ref indices) {
  constexpr const char* name = "topk";
  core::check_topk(name, x, values, indices);
  if (x.rows == 0 || indices.cols == 0) {
    return;
  }
  q.self().check_memory(name, "x", x.data);
  q.self().check_memory(name, "values", values.data);
  q.self().check_memory(name, "indices", indices.data);
  topk_call call = {input_rows::of(x), indices.cols, indices, values, {}, {}, {}, {}};
  run(q.self(), call);
}

void softmax_topk(queue& q, const_matrix_ref x, matrix_ref probabilities, matrix_ref indices,
                  const softmax_topk_options& options) {
  constexpr const char* name = "softmax_topk";
  const double scale = core::check_softmax_topk(name, x, probabilities, indices, options);
  if (x.rows == 0) {
    return;
  }
  q.self().check_memory(name, "x", x.data);
  q.self().check_memory(name, "probabilities", probabilities.data);
  q.self().check_memory(name, "indices", indices.data);
  q.self().check_memory(name, "logits", options.logits.data);
  q.self().check_memory(name, "lse", options.lse.data);
  if (indices.cols == 0) {
    if (options.lse.data != nullptr) {
      logsumexp(q, x, options.lse, {.scale = options.scale});
    }
    return;
  }
  run(q.self(), {input_rows::of(x), indices.cols, indices, options.logits, probabilities,
                 options.lse, {}, scaling::of(scale), options.empty_row});
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
