// SPDX-License-Identifier: Apache-2.0
/// \file
/// Reproducible softmax_topk: the selection as it always is, then its elements' probabilities.
#include <backends/host/reproducible/batches.hpp>
#include <backends/host/reproducible/row.hpp>

#include <core/typed_memory.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

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
  in_batches(on, p, [&](std::int64_t first, const core::topk_problem& rows) {
    core::topk_problem lists = rows;
    lists.probabilities = {};
    lists.lse = {};
    if (!lists.empty()) {
      run_topk(on, lists);
    }
    core::with_real(p.x.type, [&](auto in) {
      using T = decltype(in);
      for_each_total<T>(on, rows.x, p.scale, [&](std::int64_t r, const auto& total) {
        write_row<T>(p, first + r, total);
      });
    });
  });
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
