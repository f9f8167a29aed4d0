// SPDX-License-Identifier: Apache-2.0
/// \file
/// Scratch memory of top-k.
#pragma once

#include <gpu/plan/plan.hpp>

#include <core/problem.hpp>

#include <cstddef>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Bytes of scratch memory.
struct topk_scratch {
  std::size_t keys = 0;     ///< the groups' maxima of every row
  std::size_t states = 0;   ///< of every row's chunks
  std::size_t lists = 0;    ///< the best of every row's chunks
  std::size_t entries = 0;  ///< what is sorted, where shared memory cannot hold it
  [[nodiscard]] std::size_t bytes() const { return keys + states + lists + entries; }
};

topk_scratch scratch_of(const core::topk_problem& p, const topk_plan& plan);

/// For the merge of two lists of each row.
std::size_t lists_scratch_bytes(const core::lists_problem& p);

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
