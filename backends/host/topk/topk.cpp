// SPDX-License-Identifier: Apache-2.0
/// \file
/// topk, softmax_topk and fold_topk: plan -> run.
#include <backends/host/parallel.hpp>
#include <backends/host/row/fold.hpp>
#include <backends/host/row/state.hpp>
#include <backends/host/run.hpp>
#include <backends/host/topk/selection.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

using problem = core::topk_problem;

/// What one task works with.
struct workspace {
  segment_state* segments;
  void* exponentials;
  std::byte* selection;
};

struct workspace_size {
  std::size_t segments, exponentials, selection;
  [[nodiscard]] std::size_t each() const { return segments + exponentials + selection; }
  [[nodiscard]] workspace at(std::byte* memory) const {
    return {reinterpret_cast<segment_state*>(memory), memory + segments,
            memory + segments + exponentials};
  }
};

workspace_size workspace_of(const problem& p, std::int64_t lanes) {
  const auto round_up = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
  const dtype computed = core::arithmetic_type(p.x.type);
  const std::int64_t k = p.k();
  return {
      .segments = round_up(static_cast<std::size_t>(segments_of(p.x.cols)) * sizeof(segment_state)),
      .exponentials = round_up(static_cast<std::size_t>(k) * size_of(computed)),
      .selection = k == 0 ? 0 : selection::bytes(p.x.cols, k, lanes, computed)};
}

/// One read of the row: its state, if wanted, and its k best elements.
row_state read_row(executor& on, const problem& p, const plan& plan, const typed_kernels& kernels,
                   const void* x, const workspace& work, selection& best) {
  const std::int64_t cols = p.x.cols;
  row_fold fold(kernels, x, cols, p.scale, work.segments, {});
  std::atomic<bool> has_nan = false;
  for (std::int64_t chunk = 0; chunk < cols && !has_nan; chunk += chunk_columns) {
    const std::int64_t columns = std::min(chunk_columns, cols - chunk);
    over_segments(on, plan, columns, [&](std::int64_t i) {
      void* const groups = kernels.computed_at(best.groups(), i * best.groups_per_segment());
      if (p.folds() && fold.fold(chunk / segment_columns + i, groups)) {
        return;
      }
      // Not folded, or given up on the way: the maxima are not complete.
      const auto [begin, count] = columns_of(i, columns);
      if (!kernels.input.group_maxima(kernels.at(x, chunk + begin), count, groups)) {
        has_nan = true;
      }
    });
    if (!has_nan) {
      best.take_chunk(kernels.at(x, chunk), columns, chunk);
    }
  }
  if (has_nan) {
    best.take_any_row(x, cols);
    fold.give_up();
  }
  best.finish(x);
  return p.folds() ? fold.state() : row_state{};
}

template <class Index>
void write_indices_as(const problem& p, std::int64_t r, const std::int64_t* columns) {
  auto* const row = static_cast<Index*>(p.indices.data) + r * p.indices.stride;
  Index* const end = std::transform(columns, columns + p.k(), row, [&](std::int64_t c) {
    return static_cast<Index>(c + p.column_offset);
  });
  std::fill(end, row + p.indices.cols, Index{-1});
}

void write_indices(const problem& p, std::int64_t r, const std::int64_t* columns) {
  if (p.indices.type == dtype::i64) {
    write_indices_as<std::int64_t>(p, r, columns);
  } else {
    write_indices_as<std::int32_t>(p, r, columns);
  }
}

/// A row of k values to a matrix, each multiplied by a factor and rounded once; -infinity after
/// them.
void write_values(const typed_kernels& kernels, const matrix_ref& to, std::int64_t r,
                  const void* values, std::int64_t k, double factor) {
  void* const row = kernels.result_at(to.data, r * to.stride);
  kernels.output.scaled(values, k, factor, {row, false});
  fill(kernels, kernels.result_at(row, k), to.cols - k, -std::numeric_limits<double>::infinity());
}

void write_probabilities(const problem& p, const typed_kernels& kernels, std::int64_t r,
                         const row_state& row, const void* values, void* exponentials) {
  if (row.what != row_state::kind::ordinary) {
    fill(kernels, kernels.result_at(p.probabilities.data, r * p.probabilities.stride),
         p.probabilities.cols, fill_value(row.what, p.policy, false));
    return;
  }
  if (p.x.cols == 1) {  // all of it, exactly
    fill(kernels, kernels.result_at(p.probabilities.data, r * p.probabilities.stride),
         p.probabilities.cols, 1);
    return;
  }
  kernels.arithmetic.exponentials(values, p.probabilities.cols, &row.e, exponentials);
  write_values(kernels, p.probabilities, r, exponentials, p.probabilities.cols, 1 / row.sum);
}

/// What is wanted of a row's state itself.
void write_state(const problem& p, std::int64_t r, const row_state& row, dtype computed) {
  if (p.lse.data != nullptr) {
    core::write_real(p.lse.data, p.lse.type, r, logsumexp_of(row, computed));
  }
  if (p.partials.data != nullptr) {
    write_partial(p.partials.data, p.partials.type, r, partial_of(row, computed));
  }
}

/// What each row of the kernel for short rows works on, from row `begin` on.
topk_rows rows_from(const problem& p, const typed_kernels& kernels, std::int64_t begin) {
  const auto at = [&](const matrix_ref& to) -> void* {
    return to.data == nullptr ? nullptr
                              : static_cast<std::byte*>(to.data) +
                                    begin * to.stride * static_cast<std::int64_t>(size_of(to.type));
  };
  return {.x = kernels.at(p.x.data, begin * p.x.stride),
          .x_stride = p.x.stride,
          .cols = p.x.cols,
          .k = p.k(),
          .scale = p.scale,
          .fold = p.folds(),
          .probabilities = at(p.probabilities),
          .probabilities_stride = p.probabilities.stride,
          .probabilities_as_input = p.probabilities.type == p.x.type,
          .values = at(p.values),
          .values_stride = p.values.stride,
          .values_as_input = p.values.type == p.x.type,
          .indices = at(p.indices),
          .indices_stride = p.indices.stride,
          .wide_indices = p.indices.type == dtype::i64,
          .column_offset = p.column_offset};
}

/// Rows [begin, end) by that kernel; general(r) is called for the rows that it does not take.
template <class General>
void run_topk_rows(const problem& p, const typed_kernels& kernels, std::int64_t begin,
                   std::int64_t end, General&& general) {
  segment_state states[most_topk_rows];
  const bool wants_states = p.lse.data != nullptr || p.partials.data != nullptr;
  for (; begin < end; begin += most_topk_rows) {
    topk_rows rows = rows_from(p, kernels, begin);
    rows.rows = std::min(end - begin, most_topk_rows);
    rows.states = wants_states ? states : nullptr;
    const std::uint64_t undone = kernels.input.topk(&rows);
    for (std::int64_t i = 0; wants_states && i < rows.rows; ++i) {
      if ((undone >> i & 1U) == 0) {
        write_state(p, begin + i, combine_segments(&states[i], 1, p.scale, kernels.computed),
                    kernels.computed);
      }
    }
    for (std::uint64_t left = undone; left != 0; left &= left - 1) {
      general(begin + std::countr_zero(left));
    }
  }
}

}  // namespace

void run_topk(executor& on, const problem& p) {
  if (p.empty()) {
    return;
  }
  const plan plan = plan_for(
      on, {.rows = p.x.rows,
           .cols = p.x.cols,
           .input_bytes = static_cast<std::int64_t>(size_of(p.x.type)),
           .output_bytes = 0,
           .arithmetic_bytes = static_cast<std::int64_t>(size_of(core::arithmetic_type(p.x.type))),
           .in_place = false,
           .k = p.k()});
  const dtype computed = core::arithmetic_type(p.x.type);
  const std::int64_t lanes =
      computed == dtype::f64 ? on.kernels.lanes_f32 / 2 : on.kernels.lanes_f32;
  const workspace_size need = workspace_of(p, lanes);
  const int tasks = plan.over == spread::rows ? on.threads : 1;
  std::byte* const memory = on.scratch.at_least(need.each() * static_cast<std::size_t>(tasks));
  const std::int64_t k = p.k();
  const typed_kernels to_values = kernels_for(on.kernels, p.x.type, p.values.type);
  const typed_kernels to_probabilities = kernels_for(on.kernels, p.x.type, p.probabilities.type);

  over_rows(on, plan, p.x.rows, [&](std::int64_t begin, std::int64_t end, int slot) {
    const workspace work = need.at(memory + static_cast<std::size_t>(slot) * need.each());
    const auto general = [&](std::int64_t r) {
      const void* const x = to_values.at(p.x.data, p.x.cols == 0 ? 0 : r * p.x.stride);
      if (k == 0) {  // no element to select: all are absent, if any are asked for
        if (p.folds()) {
          write_state(p, r, state_of_row(on, plan, to_values, x, p.x.cols, p.scale, work.segments),
                      computed);
        }
        if (p.indices.cols > 0) {
          write_indices(p, r, nullptr);
          write_values(to_values, p.values, r, nullptr, 0, 1);
        }
        return;
      }
      selection best(to_values, lanes, p.x.cols, k, work.selection);
      const row_state row = read_row(on, p, plan, to_values, x, work, best);
      write_indices(p, r, best.columns());
      if (p.values.data != nullptr) {
        write_values(to_values, p.values, r, best.values(), k, 1);
      }
      if (p.probabilities.data != nullptr) {
        write_probabilities(p, to_probabilities, r, row, best.values(), work.exponentials);
      }
      write_state(p, r, row, computed);
    };
    // A list with absent entries is the general way's, and the probability of an only column.
    const bool one_probability = p.probabilities.data != nullptr && p.x.cols == 1;
    if (plan.topk_rows && p.indices.cols == k && !one_probability &&
        (!p.folds() || ordinary_scale(p.scale))) {
      run_topk_rows(p, to_values, begin, end, general);
      return;
    }
    for (std::int64_t r = begin; r < end; ++r) {
      general(r);
    }
  });
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
