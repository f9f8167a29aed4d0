// SPDX-License-Identifier: Apache-2.0
/// \file
/// A selection and a fold of the same rows, some at a time, so that the second read is of a cache.
#pragma once

#include <backends/host/run.hpp>

#include <core/check.hpp>
#include <core/problem.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

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

inline partials_ref rows_of(partials_ref p, std::int64_t first, std::int64_t count) {
  if (p.data != nullptr) {
    p.data = static_cast<std::byte*>(p.data) +
             static_cast<std::size_t>(first) * size_of_state(p.type, p.sum);
    p.size = count;
  }
  return p;
}

/// How many rows a batch has: of the shortest not as many as fit, for what is known of each takes
/// memory, too.
inline std::int64_t rows_of_batch(executor& on, const core::topk_problem& p) {
  const std::int64_t row_bytes =
      std::max<std::int64_t>(1, p.x.cols * static_cast<std::int64_t>(size_of(p.x.type)));
  const auto that_fit = static_cast<std::int64_t>(edited_rows{on}.batch_bytes()) / row_bytes;
  return std::clamp<std::int64_t>(std::min<std::int64_t>(that_fit, 1024 * on.threads), 1, p.x.rows);
}

/// Rows' folds and selections, some rows at a time: fold(p of these rows), then their lists, then
/// finish(first, p of these rows). The fold comes first: it has more to do, and asks for what it
/// will read.
template <class Fold, class Finish>
void select_in_batches(executor& on, const core::topk_problem& p, const Fold& fold,
                       const Finish& finish) {
  const std::int64_t batch = rows_of_batch(on, p);
  for (std::int64_t first = 0; first < p.x.rows; first += batch) {
    const std::int64_t count = std::min(batch, p.x.rows - first);
    core::topk_problem rows = p;
    rows.x = rows_of(p.x, first, count);
    rows.indices = rows_of(p.indices, first, count);
    rows.values = rows_of(p.values, first, count);
    rows.partials = rows_of(p.partials, first, count);
    fold(rows);
    core::topk_problem lists = rows;
    lists.probabilities = {};
    lists.lse = {};
    lists.partials = {};
    if (!lists.empty()) {
      run_topk(on, lists);
    }
    finish(first, rows);
  }
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
