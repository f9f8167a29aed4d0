// SPDX-License-Identifier: Apache-2.0
/// \file
/// combine_topk: plan -> run.
#include <backends/host/parallel.hpp>
#include <backends/host/run.hpp>

#include <core/topk.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

template <class T, class Index>
void run_as(executor& on, const core::lists_problem& p) {
  const const_matrix_ref& more_values = p.more_values;
  const const_matrix_ref& more_indices = p.more_indices;
  const matrix_ref& values = p.values;
  const matrix_ref& indices = p.indices;
  const std::int64_t k = values.cols;
  const plan plan = choose_plan({.rows = values.rows,
                                 .cols = 2 * k,
                                 .input_bytes = sizeof(T) + sizeof(Index),
                                 .output_bytes = 0,
                                 .arithmetic_bytes = 4,
                                 .in_place = true},
                                on.machine, on.threads, on.kernels);
  over_rows(on, plan, values.rows, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      core::combine_sorted<T, Index>(
          {static_cast<const T*>(more_values.data) + r * more_values.stride,
           static_cast<const Index*>(more_indices.data) + r * more_indices.stride},
          {static_cast<T*>(values.data) + r * values.stride,
           static_cast<Index*>(indices.data) + r * indices.stride},
          k);
    }
  });
}

}  // namespace

void run(executor& on, const core::lists_problem& p) {
  if (p.values.rows == 0 || p.values.cols == 0) {
    return;
  }
  core::with_real(p.values.type, [&]<class T>(T) {
    p.indices.type == dtype::i64 ? run_as<T, std::int64_t>(on, p) : run_as<T, std::int32_t>(on, p);
  });
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
