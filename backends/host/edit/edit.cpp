// SPDX-License-Identifier: Apache-2.0
/// \file
/// Edits of rows on host memory: rows, or segments of them, are tasks.
#include <backends/host/parallel.hpp>
#include <backends/host/row/state.hpp>
#include <backends/host/run.hpp>

#include <core/edits.hpp>
#include <core/real_types.hpp>

#include <cstdint>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

plan plan_for(const executor& on, const const_matrix_ref& from, const matrix_ref& to) {
  const auto bytes = [](dtype type) { return static_cast<std::int64_t>(size_of(type)); };
  return choose_plan({.rows = from.rows,
                      .cols = from.cols,
                      .input_bytes = bytes(from.type),
                      .output_bytes = bytes(to.type),
                      .arithmetic_bytes = bytes(core::arithmetic_type(from.type)),
                      .in_place = false},
                     on.machine, on.threads, on.kernels);
}

/// body(row, columns) for the segments of all rows.
template <class Body>
void over_columns(executor& on, const plan& plan, const const_matrix_ref& x, const Body& body) {
  over_rows(on, plan, x.rows, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      over_segments(on, plan, x.cols, [&](std::int64_t i) { body(r, columns_of(i, x.cols)); });
    }
  });
}

/// x[columns] of a row to `to`, of the arithmetic's type A or, if elements only go, of its own.
template <class A>
void edit_columns(const typed_kernels& kernels, const core::edited_row<A>& row, double removed,
                  const void* x, const column_range& columns, bool changes_values, void* to) {
  const row_edit edit{.first = row.first,
                      .last = row.last,
                      .words = row.words,
                      .bytes = row.bytes,
                      .bias = row.bias,
                      .bias_type = row.bias == nullptr ? 0 : input_type_of(row.bias_type),
                      .softcap = static_cast<double>(row.softcap),
                      .removed = removed};
  if (!changes_values) {
    kernels.input.keep(x, columns.count, columns.begin, &edit, to);
    return;
  }
  kernels.input.add_bias(x, columns.count, columns.begin, &edit, to);
  A* const values = static_cast<A*>(to);
  for (std::int64_t i = row.penalty_from(columns.begin); i < row.penalty_end; ++i) {
    const std::int64_t column = row.penalty_column(i) - columns.begin;
    if (column >= columns.count) {
      break;
    }
    if (column >= 0) {
      values[column] = row.penalised(values[column], i);
    }
  }
  kernels.arithmetic.cap_and_keep(to, columns.count, columns.begin, &edit);
}

}  // namespace

void edited_rows::edit(const const_matrix_ref& x, const core::edits& edits, const matrix_ref& to,
                       double removed) const {
  const typed_kernels kernels = kernels_for(on.kernels, x.type, to.type);
  const bool changes_values = edits.changes_values();
  over_columns(on, plan_for(on, x, to), x, [&](std::int64_t r, const column_range& columns) {
    const void* const from = kernels.at(x.data, r * x.stride + columns.begin);
    void* const result = kernels.result_at(to.data, r * to.stride + columns.begin);
    const auto edit_as = [&]<class A>(A) {
      edit_columns(kernels, core::edited_row<A>(edits, r, x.cols), removed, from, columns,
                   changes_values, result);
    };
    kernels.computed == dtype::f64 ? edit_as(double{}) : edit_as(float{});
  });
}

void edited_rows::narrow(const const_matrix_ref& from, const matrix_ref& to) const {
  const typed_kernels kernels = kernels_for(on.kernels, to.type, to.type);
  over_columns(on, plan_for(on, from, to), from, [&](std::int64_t r, const column_range& columns) {
    kernels.input.narrow(static_cast<const float*>(from.data) + r * from.stride + columns.begin,
                         columns.count, kernels.result_at(to.data, r * to.stride + columns.begin));
  });
}

void edited_rows::settle(const core::settled_lists& lists) const {
  const auto settle_as = [&]<class T, class Index>(T, Index) {
    over_rows(on, plan_for(on, lists.x, lists.indices), lists.x.rows,
              [&](std::int64_t begin, std::int64_t end, int) {
                for (std::int64_t r = begin; r < end; ++r) {
                  core::settle_list<T, Index>(lists, r);
                }
              });
  };
  core::with_real(lists.x.type, [&]<class T>(T element) {
    lists.indices.type == dtype::i64 ? settle_as(element, std::int64_t{})
                                     : settle_as(element, std::int32_t{});
  });
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
