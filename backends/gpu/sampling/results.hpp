// SPDX-License-Identifier: Apache-2.0
/// \file
/// What is written of a draw, whatever the way to it.
#pragma once

#include <gpu/row/vector_elements.hpp>

#include <core/reproducible.hpp>
#include <core/sample_problem.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// What is wanted of a row as it is.
using raw_row = core::reproducible::row_total<float>;

inline bool wants_raws(const sample_options& o) {
  return o.lse.data != nullptr || o.raw_log_probability.data != nullptr ||
         o.top_indices.data != nullptr;
}
/// The log-probability of an element.
[[nodiscard]] __device__ inline double raw_log(const raw_row& raw, float x) {
  return raw.kind == core::sampling::row_kind::ordinary
             ? static_cast<double>(raw.log_softmax(x))
             : core::sampling::log_probability_of(raw.kind);
}

/// The token of an ordinary row's, or an infinite one's, best runner, or that there is none. log:
/// of an ordinary row's, as the filters leave it. raws: what is wanted of rows as they are, or
/// null.
template <class In>
__device__ inline void write_drawn(const core::sample_problem& problem, std::int64_t row,
                                   std::int64_t draw, const core::sampling::runner& best,
                                   core::sampling::row_kind kind, double log, const raw_row* raws) {
  using core::sampling::row_kind;
  const bool exists = kind == row_kind::ordinary || kind == row_kind::infinite;
  if (kind != row_kind::ordinary) {
    log = core::sampling::log_probability_of(kind);
  }
  double raw = log;
  if (exists && problem.options.raw_log_probability.data != nullptr) {
    const In* const x = static_cast<const In*>(problem.x.data) + row * problem.x.stride;
    raw = raw_log(raws[row], static_cast<float>(widen(x[best.column])));
  }
  core::sampling::write_token(problem, row, draw, exists ? best.column : -1, log, raw);
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
