// SPDX-License-Identifier: Apache-2.0
/// \file
/// Reproducible softmax_topk: the selection as it always is, then its elements' probabilities.
#include <backends/host/reproducible/row.hpp>
#include <backends/host/run.hpp>

#include <core/typed_memory.hpp>

#include <algorithm>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// Rows [first, first + count) of a matrix.
template <class Matrix>
Matrix rows_of(Matrix m, std::int64_t first, std::int64_t count) {
  if (m.data != nullptr) {
    m.data = const_cast<std::byte*>(static_cast<const std::byte*>(m.data)) +
             first * m.stride * static_cast<std::int64_t>(size_of(m.type));
  }
  m.rows = count;
  return m;
}

template <class In>
void write_row(const core::topk_problem& p, std::int64_t r,
               const core::reproducible::row_total<core::arithmetic_t<In>>& total) {
  const In* const x = static_cast<const In*>(p.x.data) + r * p.x.stride;
  if (p.lse.data != nullptr) {
    core::write_real(p.lse.data, p.lse.type, r, total.lse);
  }
  for (std::int64_t i = 0; p.probabilities.data != nullptr && i < p.probabilities.cols; ++i) {
    const std::int64_t column =
        core::integer_at(p.indices.data, p.indices.type, r * p.indices.stride + i);
    core::arithmetic_t<In> probability[1];
    plain_map(total, x + (column - p.column_offset), 1, false, p.policy, probability);
    core::write_real(p.probabilities.data, p.probabilities.type, r * p.probabilities.stride + i,
                     probability[0]);
  }
}

}  // namespace

void run_reproducible_topk(executor& on, const core::topk_problem& p) {
  if (p.empty()) {
    return;
  }
  const std::int64_t row_bytes =
      std::max<std::int64_t>(1, p.x.cols * static_cast<std::int64_t>(size_of(p.x.type)));
  const std::int64_t batch = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(edited_rows{on}.batch_bytes()) / row_bytes, 1, p.x.rows);
  for (std::int64_t first = 0; first < p.x.rows; first += batch) {
    const std::int64_t count = std::min(batch, p.x.rows - first);
    core::topk_problem rows = p;
    rows.x = rows_of(p.x, first, count);
    rows.indices = rows_of(p.indices, first, count);
    rows.values = rows_of(p.values, first, count);
    rows.probabilities = {};
    rows.lse = {};
    if (!rows.empty()) {
      run_topk(on, rows);
    }
    core::with_real(p.x.type, [&](auto in) {
      using T = decltype(in);
      for_each_total<T>(on, rows.x, p.scale, [&](std::int64_t r, const auto& total) {
        write_row<T>(p, first + r, total);
      });
    });
  }
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
