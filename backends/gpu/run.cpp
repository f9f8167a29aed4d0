// SPDX-License-Identifier: Apache-2.0
#include "run.hpp"

#include "calls.hpp"
#include "topk_calls.hpp"

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

void check_memory(const executor& on, const char* function,
                  std::initializer_list<memory_argument> arguments) {
  for (const memory_argument& a : arguments) {
    on.check_memory(function, a.name, a.data);
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

void launch(executor& on, const map_call& call) {
  if (call.x.rows == 0 || call.x.cols == 0) {
    return;
  }
  const runtime::current_device current(on.device);
  const bool given = call.given != nullptr;
  const row_shape shape = call.x.shape();
  const device_limits device = on.limits();
  const row_plan plan =
      given ? plan_pass(shape) : plan_rows(plan_map(shape, device), call.x.rows, shape, device);
  const std::int64_t batch =
      plan.batch_rows > 0 ? std::min(plan.batch_rows, call.x.rows) : call.x.rows;
  void* const scratch =
      given ? nullptr : on.scratch.at_least(part_states_bytes(plan, batch, call.x.type));
  map_call with_exchange = call;
  with_exchange.exchange = on.scratch.exchange();
  with_input(call.x.type, [&](auto in) {
    for (std::int64_t row = 0; row < call.x.rows; row += batch) {
      launch_map<decltype(in)>(part_of(with_exchange, row, std::min(batch, call.x.rows - row)),
                               plan, scratch, on.stream, on.properties.lanes);
    }
  });
}

void launch(executor& on, const reduction_call& call) {
  if (call.x.rows == 0) {
    return;
  }
  const runtime::current_device current(on.device);
  const row_plan plan = plan_pass(call.x.shape());
  void* const scratch = on.scratch.at_least(part_states_bytes(plan, call.x.rows, call.x.type));
  with_input(call.x.type, [&](auto in) {
    launch_reduction<decltype(in)>(call, plan, scratch, on.stream, on.properties.lanes);
  });
}

void launch(executor& on, const topk_call& call, const topk_plan& plan) {
  const runtime::current_device current(on.device);
  void* const scratch = on.scratch.at_least(scratch_of(call, plan).bytes());
  with_input(call.x.type, [&](auto in) {
    launch_topk<decltype(in)>(call, plan, scratch, on.stream, on.properties.lanes);
  });
}

}  // namespace

void run(executor& on, const core::row_problem& p) {
  const bool maps = p.what != core::operation::logsumexp;
  check_memory(on, core::name_of(p.what), {{"x", p.x.data}, {maps ? "y" : "lse", p.y.data}});
  const input_rows x = input_rows::of(p.x);
  const scaling scale = scaling::of(p.scale);
  if (maps) {
    launch(on, map_call{x, p.y.data, p.y.type, p.y.stride, scale, p.policy,
                        p.what == core::operation::log_softmax});
  } else {
    launch(on, reduction_call{x, p.y.data, lse_kind(p.y.type), scale});
  }
}

void run(executor& on, const core::normalize_problem& p) {
  check_memory(on, core::normalize_name(p.log),
               {{"x_part", p.x.data}, {"partials", p.partials.data}, {"y", p.y.data}});
  launch(on, map_call{input_rows::of(p.x), p.y.data, p.y.type, p.y.stride, scaling::of(p.scale),
                      p.policy, p.log, p.partials.data});
}

void run(executor& on, const core::topk_problem& p) {
  check_memory(on, p.function,
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
                std::string(p.function) + ": indices.cols = " + std::to_string(p.indices.cols) +
                    ", more than the 2^30 that this backend can choose of a row");
  }
  const input_rows x = input_rows::of(p.x);
  const scaling scale = scaling::of(p.scale);
  if (p.indices.cols == 0) {  // no list is wanted, only the row's state
    if (p.lse.data != nullptr) {
      launch(on, reduction_call{x, p.lse.data, lse_kind(p.lse.type), scale});
    }
    if (p.partials.data != nullptr) {
      launch(on, reduction_call{x, p.partials.data, result_kind::partial, scale});
    }
    return;
  }
  topk_call call = {x,     p.indices.cols, p.indices, p.values, p.probabilities,
                    p.lse, p.partials,     scale,     p.policy, p.column_offset};
  // The state of a row has the same bits with and without a list. Where the list's kernel folds the
  // row in another order, the row, a short one, is read twice.
  const topk_plan plan = plan_topk(x.shape(), x.rows, call.k, on.limits());
  if (p.partials.data != nullptr && !plan.folds_as_pass) {
    launch(on, reduction_call{x, p.partials.data, result_kind::partial, scale});
    call.partials = {};
  }
  launch(on, call, plan);
}

void run(executor& on, const core::fold_problem& p) {
  check_memory(on, "fold", {{"x_part", p.x.data}, {"partials", p.partials.data}});
  launch(on, reduction_call{input_rows::of(p.x), p.partials.data, result_kind::partial,
                            scaling::of(p.scale)});
}

void run(executor& on, const core::combine_problem& p) {
  check_memory(on, "combine", {{"more", p.more.data}, {"partials", p.partials.data}});
  const runtime::current_device current(on.device);
  launch_combine(p.more, p.partials, on.stream);
}

void run(executor& on, const core::state_problem& p) {
  check_memory(on, "logsumexp", {{"partials", p.partials.data}, {"lse", p.lse.data}});
  const runtime::current_device current(on.device);
  launch_logsumexp_of_states(p.partials, p.lse, on.stream);
}

void run(executor& on, const core::lists_problem& p) {
  check_memory(on, "combine_topk",
               {{"more_values", p.more_values.data},
                {"more_indices", p.more_indices.data},
                {"values", p.values.data},
                {"indices", p.indices.data}});
  if (p.values.rows == 0 || p.values.cols == 0) {
    return;
  }
  const runtime::current_device current(on.device);
  void* const scratch = on.scratch.at_least(lists_scratch_bytes(p));
  launch_combine_topk(p, scratch, on.stream);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
