// SPDX-License-Identifier: Apache-2.0
/// \file
/// Every entry point: check -> plan -> launch.
#include "calls.hpp"
#include "queue_state.hpp"
#include "topk_calls.hpp"

#include <core/problem.hpp>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

/// Memory that an argument names.
struct memory_argument {
  const char* name;
  const void* data;
};

void check_memory(const queue::state& q, const char* function,
                  std::initializer_list<memory_argument> arguments) {
  for (const memory_argument& a : arguments) {
    q.check_memory(function, a.name, a.data);
  }
}

/// Rows [first, first + rows) of a call.
map_call part_of(const map_call& call, std::int64_t first, std::int64_t rows) {
  const auto in = static_cast<std::int64_t>(size_of(call.x.type));
  const auto out = static_cast<std::int64_t>(size_of(call.y_type));
  map_call part = call;
  part.x.data = static_cast<const std::byte*>(call.x.data) + first * call.x.stride * in;
  part.x.rows = rows;
  part.y = static_cast<std::byte*>(call.y) + first * call.y_stride * out;
  return part;
}

void run(queue::state& q, const map_call& call) {
  if (call.x.rows == 0 || call.x.cols == 0) {
    return;
  }
  const runtime::current_device current(q.device);
  const bool given = call.given != nullptr;
  const row_shape shape = call.x.shape();
  const row_plan plan = given ? plan_pass(shape) : plan_map(shape, q.limits());
  const std::int64_t batch =
      plan.batch_rows > 0 ? std::min(plan.batch_rows, call.x.rows) : call.x.rows;
  void* const scratch =
      given ? nullptr : q.scratch.at_least(chunk_states_bytes(plan, batch, call.x.type));
  with_input(call.x.type, [&](auto in) {
    for (std::int64_t row = 0; row < call.x.rows; row += batch) {
      launch_map<decltype(in)>(part_of(call, row, std::min(batch, call.x.rows - row)), plan,
                               scratch, q.stream.get(), q.properties.lanes);
    }
  });
}

void run(queue::state& q, const reduction_call& call) {
  if (call.x.rows == 0) {
    return;
  }
  const runtime::current_device current(q.device);
  const row_plan plan = plan_pass(call.x.shape());
  void* const scratch = q.scratch.at_least(chunk_states_bytes(plan, call.x.rows, call.x.type));
  with_input(call.x.type, [&](auto in) {
    launch_reduction<decltype(in)>(call, plan, scratch, q.stream.get(), q.properties.lanes);
  });
}

void run(queue::state& q, const topk_call& call, const topk_plan& plan) {
  const runtime::current_device current(q.device);
  void* const scratch = q.scratch.at_least(scratch_of(call, plan).bytes());
  with_input(call.x.type, [&](auto in) {
    launch_topk<decltype(in)>(call, plan, scratch, q.stream.get(), q.properties.lanes);
  });
}

void run_map(queue& q, const char* name, const core::row_problem& p) {
  check_memory(q.self(), name, {{"x", p.x.data}, {"y", p.y.data}});
  run(q.self(), map_call{input_rows::of(p.x), p.y.data, p.y.type, p.y.stride, scaling::of(p.scale),
                         p.policy, p.what == core::operation::log_softmax});
}

void run_normalize(queue& q, const char* name, const core::normalize_problem& p) {
  check_memory(q.self(), name,
               {{"x_part", p.x.data}, {"partials", p.partials.data}, {"y", p.y.data}});
  run(q.self(), map_call{input_rows::of(p.x), p.y.data, p.y.type, p.y.stride, scaling::of(p.scale),
                         p.policy, p.log, p.partials.data});
}

void run_topk(queue& q, const char* name, const core::topk_problem& p) {
  check_memory(q.self(), name,
               {{"x", p.x.data},
                {"indices", p.indices.data},
                {"values", p.values.data},
                {"probabilities", p.probabilities.data},
                {"lse", p.lse.data},
                {"partials", p.partials.data}});
  if (p.empty()) {
    return;
  }
  constexpr std::int64_t most = std::int64_t{1} << 30;
  if (p.indices.cols > most) {
    throw error(errc::invalid_argument,
                std::string(name) + ": indices.cols = " + std::to_string(p.indices.cols) +
                    ", more than the 2^30 that this backend can choose of a row");
  }
  const input_rows x = input_rows::of(p.x);
  const scaling scale = scaling::of(p.scale);
  if (p.indices.cols == 0) {  // no list is wanted, only the row's state
    if (p.lse.data != nullptr) {
      run(q.self(), reduction_call{x, p.lse.data, lse_kind(p.lse.type), scale});
    }
    if (p.partials.data != nullptr) {
      run(q.self(), reduction_call{x, p.partials.data, result_kind::partial, scale});
    }
    return;
  }
  topk_call call = {x,     p.indices.cols, p.indices, p.values, p.probabilities,
                    p.lse, p.partials,     scale,     p.policy, p.column_offset};
  // The state of a row has the same bits with and without a list. Where the list's kernel folds the
  // row in another order, the row, a short one, is read twice.
  const topk_plan plan = plan_topk(x.shape(), x.rows, call.k, q.self().limits());
  if (p.partials.data != nullptr && !plan.folds_as_pass) {
    run(q.self(), reduction_call{x, p.partials.data, result_kind::partial, scale});
    call.partials = {};
  }
  run(q.self(), call, plan);
}

}  // namespace
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

namespace softfold {
inline namespace SOFTFOLD_BACKEND {

using namespace gpu;

void softmax(queue& q, const_matrix_ref x, matrix_ref y, const softmax_options& options) {
  constexpr const char* name = "softmax";
  run_map(q, name, core::checked_softmax(name, core::operation::softmax, x, y, options));
}

void log_softmax(queue& q, const_matrix_ref x, matrix_ref y, const softmax_options& options) {
  constexpr const char* name = "log_softmax";
  run_map(q, name, core::checked_softmax(name, core::operation::log_softmax, x, y, options));
}

void logsumexp(queue& q, const_matrix_ref x, vector_ref lse, const logsumexp_options& options) {
  const core::row_problem p = core::checked_logsumexp(x, lse, options);
  check_memory(q.self(), "logsumexp", {{"x", x.data}, {"lse", lse.data}});
  run(q.self(),
      reduction_call{input_rows::of(x), lse.data, lse_kind(lse.type), scaling::of(p.scale)});
}

void topk(queue& q, const_matrix_ref x, matrix_ref values, matrix_ref indices) {
  run_topk(q, "topk", core::checked_topk(x, values, indices));
}

void softmax_topk(queue& q, const_matrix_ref x, matrix_ref probabilities, matrix_ref indices,
                  const softmax_topk_options& options) {
  run_topk(q, "softmax_topk", core::checked_softmax_topk(x, probabilities, indices, options));
}

void fold(queue& q, const_matrix_ref x_part, partials_ref partials,
          const logsumexp_options& options) {
  const core::fold_problem p = core::checked_fold(x_part, partials, options);
  check_memory(q.self(), "fold", {{"x_part", x_part.data}, {"partials", partials.data}});
  run(q.self(), reduction_call{input_rows::of(x_part), partials.data, result_kind::partial,
                               scaling::of(p.scale)});
}

void combine(queue& q, const_partials_ref more, partials_ref partials) {
  const core::combine_problem p = core::checked_combine(more, partials);
  check_memory(q.self(), "combine", {{"more", more.data}, {"partials", partials.data}});
  const runtime::current_device current(q.self().device);
  launch_combine(p.more, p.partials, q.self().stream.get());
}

void normalize(queue& q, const_matrix_ref x_part, const_partials_ref partials, matrix_ref y,
               const softmax_options& options) {
  constexpr const char* name = "normalize";
  run_normalize(q, name, core::checked_normalize(name, false, x_part, partials, y, options));
}

void log_normalize(queue& q, const_matrix_ref x_part, const_partials_ref partials, matrix_ref y,
                   const softmax_options& options) {
  constexpr const char* name = "log_normalize";
  run_normalize(q, name, core::checked_normalize(name, true, x_part, partials, y, options));
}

void logsumexp(queue& q, const_partials_ref partials, vector_ref lse) {
  const core::state_problem p = core::checked_logsumexp(partials, lse);
  check_memory(q.self(), "logsumexp", {{"partials", partials.data}, {"lse", lse.data}});
  const runtime::current_device current(q.self().device);
  launch_logsumexp_of_states(p.partials, p.lse, q.self().stream.get());
}

void fold_topk(queue& q, const_matrix_ref x_part, partials_ref partials, matrix_ref values,
               matrix_ref indices, const fold_topk_options& options) {
  run_topk(q, "fold_topk", core::checked_fold_topk(x_part, partials, values, indices, options));
}

void combine_topk(queue& q, const_matrix_ref more_values, const_matrix_ref more_indices,
                  matrix_ref values, matrix_ref indices) {
  const core::lists_problem p =
      core::checked_combine_topk(more_values, more_indices, values, indices);
  check_memory(q.self(), "combine_topk",
               {{"more_values", more_values.data},
                {"more_indices", more_indices.data},
                {"values", values.data},
                {"indices", indices.data}});
  if (values.rows == 0 || values.cols == 0) {
    return;
  }
  const runtime::current_device current(q.self().device);
  void* const scratch = q.self().scratch.at_least(lists_scratch_bytes(p));
  launch_combine_topk(p, scratch, q.self().stream.get());
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
