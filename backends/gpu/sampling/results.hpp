// SPDX-License-Identifier: Apache-2.0
/// \file
/// What is written of a draw, whatever the way to it.
#pragma once

#include <gpu/contract.hpp>

#include <core/sample_problem.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The token of an ordinary row's, or an infinite one's, best runner, or that there is none. log:
/// of an ordinary row's, as the filters leave it.
__device__ inline void write_drawn(const core::sample_problem& problem, std::int64_t row,
                                   std::int64_t draw, const core::sampling::runner& best,
                                   core::sampling::row_kind kind, double log) {
  using core::sampling::row_kind;
  const bool exists = kind == row_kind::ordinary || kind == row_kind::infinite;
  if (kind != row_kind::ordinary) {
    log = core::sampling::log_probability_of(kind);
  }
  core::sampling::write_token(problem, row, draw, exists ? best.column : -1, log, log);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
