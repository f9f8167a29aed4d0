// SPDX-License-Identifier: Apache-2.0
/// \file
/// fold_sample, combine_sample, finish_sample: plan -> run.
#include <backends/host/parallel.hpp>
#include <backends/host/row/source.hpp>
#include <backends/host/run.hpp>

#include <core/sample_parts_row.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

namespace sampling = core::sampling;

/// A state is as much work as so many elements of a row; an entry of its list as 16.
constexpr std::int64_t state_work = sizeof(sample_state);

/// The state of row r before any column.
sample_state empty_state_of(const core::fold_sample_problem& p, const source& from,
                            std::int64_t r) {
  return from.kernels.computed == dtype::f64 ? sampling::empty_state_of<double>(p, r)
                                             : sampling::empty_state_of<float>(p, r);
}

void fold_rows(executor& on, const core::fold_sample_problem& p) {
  const source from(on.kernels, p.x, 1, p.x.type);
  const plan plan = plan_for(on, from.shape_to(0));
  const std::int64_t cols = p.x.cols;
  const auto add = [&](std::int64_t r, std::int64_t begin, std::int64_t count,
                       sample_state& state) {
    from.kernels.input.fold_sample(from.kernels.at(from.row(r), begin), count,
                                   p.options.column_offset + begin, &state);
  };
  auto* const parts = reinterpret_cast<sample_state*>(
      on.scratch.at_least(plan.over == spread::segments
                              ? static_cast<std::size_t>(segments_of(cols)) * sizeof(sample_state)
                              : 0));
  over_rows(on, plan, p.x.rows, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      sample_state state = empty_state_of(p, from, r);
      if (plan.over == spread::segments) {
        over_segments(on, plan, cols, [&](std::int64_t i) {
          const auto [first, count] = columns_of(i, cols);
          parts[i] = state;
          add(r, first, count, parts[i]);
        });
        for (std::int64_t i = 0; i < segments_of(cols); ++i) {
          sampling::combine(state, parts[i]);
        }
      } else {
        add(r, 0, cols, state);
      }
      p.states.data[r] = state;
    }
  });
}

}  // namespace

void run(executor& on, const core::fold_sample_problem& p) {
  if (p.x.rows == 0) {
    return;
  }
  if (p.values.cols > 0) {
    run(on, core::topk_problem{.function = "fold_sample",
                               .x = p.x,
                               .indices = p.indices,
                               .values = p.values,
                               .column_offset = p.options.column_offset,
                               .makes_parts = true});
  }
  fold_rows(on, p);
}

void run(executor& on, const core::combine_sample_problem& p) {
  if (p.values.cols > 0) {
    run(on, core::lists_problem{p.more_values, p.more_indices, p.values, p.indices});
  }
  over_each(on, p.more.size, state_work,
            [&](std::int64_t r) { sampling::combine(p.states.data[r], p.more.data[r]); });
}

void run(executor& on, const core::finish_sample_problem& p) {
  if (p.states.size == 0) {
    return;
  }
  over_each(on, p.states.size, state_work + 16 * p.values.cols,
            [&](std::int64_t r) { sampling::finish_sample_row(p, r); });
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
