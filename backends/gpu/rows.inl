// SPDX-License-Identifier: Apache-2.0
/// \file
/// Problems of rows for one element type: their reductions; maps are softmax.inl's.
#pragma once

#include <gpu/job/masked_softmax.hpp>
#include <gpu/reduce/run.hpp>
#include <gpu/typed.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Whether rows with edits can be read as they are, for results at y, if any.
template <class In>
bool reads_edited(const core::edits& edits, const const_matrix_ref& x, const matrix_ref& y,
                  double scale) {
  if constexpr (sizeof(In) <= 4) {
    const auto fold = softmax_fold<In>::of(x, scale);
    const bool writes = y.data != nullptr;
    // A row alone is planned like others of its stride, of which there would be a copy.
    return row_removals::takes(edits, x.rows, x.cols) && fold.shape().alignment == sector_bytes &&
           (writes ? y.type == x.type &&
                         softmax_map<map_operation::softmax, In, In>::of(fold, y, {}).is_plain()
                   : fold.is_plain());
  }
  return false;
}

/// softmax or log-softmax.
template <class In>
void run_softmax(executor& on, bool log, const softmax_rows& rows) {
  if (log) {
    run_softmax_as<In, true>(on, rows);
  } else {
    run_softmax_as<In, false>(on, rows);
  }
}

template <class In>
bool reads_edits(const core::row_problem& p) {
  const bool maps = p.what != core::operation::logsumexp;
  return reads_edited<In>(p.edits, p.x, maps ? p.y : matrix_ref{}, p.scale);
}
template <class In>
bool reads_edits(const core::normalize_problem& p) {
  return reads_edited<In>(p.edits, p.x, p.y, p.scale);
}
template <class In>
bool reads_edits(const core::fold_problem& p) {
  return reads_edited<In>(p.edits, p.x, {}, p.scale);
}

template <class In>
void run_as(executor& on, const core::row_problem& p) {
  if (p.what != core::operation::logsumexp) {
    return run_softmax<In>(on, p.what == core::operation::log_softmax,
                           {p.x, p.edits, p.scale, p.y, p.policy});
  }
  with_fold<In>(p.edits, p.x, p.scale, [&](const auto& fold) {
    run_reduction(on, fold, {p.y.data, lse_kind(p.y.type)});
  });
}

template <class In>
void run_as(executor& on, const core::normalize_problem& p) {
  run_softmax<In>(on, p.log, {p.x, p.edits, p.scale, p.y, p.policy, p.partials.data});
}

template <class In>
void run_as(executor& on, const core::fold_problem& p) {
  with_fold<In>(p.edits, p.x, p.scale, [&](const auto& fold) {
    run_reduction(on, fold, {p.partials.data, result_kind::partial});
  });
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

#define SOFTFOLD_GPU_ROWS(In)                                          \
  namespace softfold::gpu {                                            \
  inline namespace SOFTFOLD_BACKEND {                                  \
  template bool reads_edits<In>(const core::row_problem&);             \
  template bool reads_edits<In>(const core::normalize_problem&);       \
  template bool reads_edits<In>(const core::fold_problem&);            \
  template void run_as<In>(executor&, const core::row_problem&);       \
  template void run_as<In>(executor&, const core::normalize_problem&); \
  template void run_as<In>(executor&, const core::fold_problem&);      \
  }                                                                    \
  }                                                                    \
  static_assert(true)
