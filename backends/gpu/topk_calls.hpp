// SPDX-License-Identifier: Apache-2.0
/// \file
/// A checked top-k call, and what its launch needs.
#pragma once

#include "calls.hpp"

#include <core/problem.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// topk, softmax_topk and fold_topk. Outputs without data are not written.
struct topk_call {
  input_rows x;
  std::int64_t k;  ///< 1 or more
  matrix_ref indices;
  matrix_ref values;
  matrix_ref probabilities;
  vector_ref lse;
  partials_ref partials;
  scaling scale;
  empty_row policy = empty_row::nan;
  std::int64_t column_offset = 0;

  /// Whether the row's state is needed.
  [[nodiscard]] bool folds() const {
    return probabilities.data != nullptr || lse.data != nullptr || partials.data != nullptr;
  }
};

/// Bytes of scratch memory.
struct topk_scratch {
  std::size_t keys = 0;     ///< the groups' maxima of every row
  std::size_t states = 0;   ///< of every row's chunks
  std::size_t lists = 0;    ///< the best of every row's chunks
  std::size_t entries = 0;  ///< what is sorted, where shared memory cannot hold it
  [[nodiscard]] std::size_t bytes() const { return keys + states + lists + entries; }
};

topk_scratch scratch_of(const topk_call& call, const topk_plan& plan);

template <class In>
void launch_topk(const topk_call& call, const topk_plan& plan, void* scratch, stream_handle stream,
                 int lanes);

/// Bytes of scratch memory, and the merge of two lists of each row.
std::size_t lists_scratch_bytes(const core::lists_problem& p);
void launch_combine_topk(const core::lists_problem& p, void* scratch, stream_handle stream);

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
