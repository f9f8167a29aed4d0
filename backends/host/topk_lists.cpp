// SPDX-License-Identifier: Apache-2.0
/// \file
/// combine_topk: plan -> launch.
#include "launch.hpp"
#include "parallel.hpp"

#include <core/topk.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

template <class T, class Index>
void launch_as(executor& queue, const core::lists_problem& p) {
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
                                queue.machine, queue.threads, queue.kernels);
  over_rows(queue, plan, values.rows, [&](std::int64_t begin, std::int64_t end, int) {
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

void launch(executor& queue, const core::lists_problem& p) {
  if (p.values.rows == 0 || p.values.cols == 0) {
    return;
  }
  const auto run = [&]<class T>(T) {
    p.indices.type == dtype::i64 ? launch_as<T, std::int64_t>(queue, p)
                                 : launch_as<T, std::int32_t>(queue, p);
  };
  switch (p.values.type) {
    case dtype::f64:
      return run(double{});
    case dtype::f16:
      return run(half{});
    case dtype::bf16:
      return run(bfloat16{});
    default:
      return run(float{});
  }
}

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
