// SPDX-License-Identifier: Apache-2.0
/// \file
/// softmax, log_softmax, logsumexp, fold and normalize: check -> plan -> launch.
#include "calls.hpp"
#include "queue_state.hpp"

#include <core/check_calls.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

void run(queue::state& q, const map_call& call) {
  if (call.x.rows == 0 || call.x.cols == 0) {
    return;
  }
  const runtime::current_device current(q.device);
  const row_shape shape = call.x.shape();
  const row_plan plan = call.given != nullptr ? plan_second_pass(shape, q.limits())
                                              : plan_map(shape, q.limits());
  void* const scratch =
      call.given != nullptr
          ? nullptr
          : q.scratch.at_least(chunk_states_bytes(plan, call.x.rows, call.x.type));
  with_input(call.x.type, [&](auto in) {
    launch_map<decltype(in)>(call, plan, scratch, q.stream.get(), q.properties.lanes);
  });
}

void run(queue::state& q, const reduction_call& call) {
  if (call.x.rows == 0) {
    return;
  }
  const runtime::current_device current(q.device);
  const row_plan plan = plan_reduction(call.x.shape(), q.limits());
  void* const scratch = q.scratch.at_least(chunk_states_bytes(plan, call.x.rows, call.x.type));
  with_input(call.x.type, [&](auto in) {
    launch_reduction<decltype(in)>(call, plan, scratch, q.stream.get(), q.properties.lanes);
  });
}

void run_map(queue::state& q, const char* name, bool log, const const_matrix_ref& x,
             const matrix_ref& y, const softmax_options& options) {
  const double scale = core::check_map(name, x, y, options);
  q.check_memory(name, "x", x.data);
  q.check_memory(name, "y", y.data);
  run(q, map_call{input_rows::of(x), y.data, y.type, y.stride, scaling::of(scale), options.empty_row, log,
                  nullptr});
}

}  // namespace

std::size_t chunk_states_bytes(const row_plan& plan, std::int64_t rows, dtype input) {
  if (plan.kind != row_plan_kind::chunks) {
    return 0;
  }
  const std::size_t state = 2 * size_of(core::arithmetic_type(input));
  return static_cast<std::size_t>(rows) * (static_cast<std::size_t>(plan.chunks) + 1) * state;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

namespace softfold {
inline namespace SOFTFOLD_BACKEND {

using namespace gpu;

void softmax(queue& q, const_matrix_ref x, matrix_ref y, const softmax_options& options) {
  run_map(q.self(), "softmax", false, x, y, options);
}

void log_softmax(queue& q, const_matrix_ref x, matrix_ref y, const softmax_options& options) {
  run_map(q.self(), "log_softmax", true, x, y, options);
}

void logsumexp(queue& q, const_matrix_ref x, vector_ref lse, const logsumexp_options& options) {
  const double scale = core::check_logsumexp("logsumexp", x, lse, options);
  q.self().check_memory("logsumexp", "x", x.data);
  q.self().check_memory("logsumexp", "lse", lse.data);
  run(q.self(), reduction_call{input_rows::of(x), lse.data, lse_kind(lse.type), scaling::of(scale)});
}

void fold(queue& q, const_matrix_ref x_part, partials_ref partials,
          const logsumexp_options& options) {
  const double scale = core::check_fold("fold", x_part, partials, options);
  q.self().check_memory("fold", "x_part", x_part.data);
  q.self().check_memory("fold", "partials", partials.data);
  run(q.self(),
      reduction_call{input_rows::of(x_part), partials.data, result_kind::partial, scaling::of(scale)});
}

void combine(queue& q, const_partials_ref more, partials_ref partials) {
  core::check_combine("combine", more, partials);
  if (more.size == 0) {
    return;
  }
  q.self().check_memory("combine", "more", more.data);
  q.self().check_memory("combine", "partials", partials.data);
  const runtime::current_device current(q.self().device);
  launch_combine(more.type, more.data, partials.data, more.size, q.self().stream.get());
}

void normalize(queue& q, const_matrix_ref x_part, const_partials_ref partials, matrix_ref y,
               const softmax_options& options) {
  constexpr const char* name = "normalize";
  const double scale = core::check_normalize(name, x_part, partials, y, options);
  q.self().check_memory(name, "x_part", x_part.data);
  q.self().check_memory(name, "partials", partials.data);
  q.self().check_memory(name, "y", y.data);
  run(q.self(), map_call{input_rows::of(x_part), y.data, y.type, y.stride, scaling::of(scale),
                         options.empty_row, false, partials.data});
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
