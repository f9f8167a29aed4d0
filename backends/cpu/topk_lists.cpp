// SPDX-License-Identifier: Apache-2.0
/// \file
/// combine_topk: check -> plan -> launch.
#include "parallel.hpp"

#include <core/check_lists.hpp>
#include <core/topk.hpp>

namespace softfold::cpu_backend {
namespace {

template <class T, class Index>
void launch(queue::state& queue, const const_matrix_ref& more_values,
            const const_matrix_ref& more_indices, const matrix_ref& values,
            const matrix_ref& indices) {
  const std::int64_t k = values.cols;
  const plan plan = choose_plan({.rows = values.rows,
                                 .cols = 2 * k,
                                 .input_bytes = sizeof(T) + sizeof(Index),
                                 .output_bytes = 0,
                                 .arithmetic_bytes = 4,
                                 .in_place = true},
                                queue.machine, queue.info.threads, queue.kernels);
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

template <class T, class... Arguments>
void launch_for_index(dtype index, Arguments&&... arguments) {
  index == dtype::i64 ? launch<T, std::int64_t>(arguments...)
                      : launch<T, std::int32_t>(arguments...);
}

}  // namespace
}  // namespace softfold::cpu_backend

namespace softfold {
inline namespace cpu {

using namespace cpu_backend;

void combine_topk(queue& q, const_matrix_ref more_values, const_matrix_ref more_indices,
                  matrix_ref values, matrix_ref indices) {
  core::check_combine_topk("combine_topk", more_values, more_indices, values, indices);
  if (values.rows == 0 || values.cols == 0) {
    return;
  }
  const auto run = [&]<class T>(T) {
    launch_for_index<T>(indices.type, q.self(), more_values, more_indices, values, indices);
  };
  switch (values.type) {
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

}  // namespace cpu
}  // namespace softfold
