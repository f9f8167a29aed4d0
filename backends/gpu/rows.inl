// SPDX-License-Identifier: Apache-2.0
/// \file
/// The jobs of rows.inl's problems for one element type. Each type has a translation unit of its
/// own, so that they compile side by side.
#pragma once

#include <gpu/job/gradient.hpp>
#include <gpu/job/masked_softmax.hpp>
#include <gpu/map/run.hpp>
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

/// Calls body with the fold of x's rows, with their edits if there are any.
template <class In, class Body>
void with_fold(const core::edits& edits, const const_matrix_ref& x, double scale,
               const Body& body) {
  const auto fold = softmax_fold<In>::of(x, scale);
  if constexpr (sizeof(In) <= 4) {
    if (edits.any()) {
      return body(masked_softmax_fold<In>::of(fold, edits));
    }
  }
  body(fold);
}

/// softmax or log-softmax of the fold's rows, or with their states given, to y.
template <class In, class Fold>
void run_softmax(executor& on, const Fold& fold, bool log, const matrix_ref& y, empty_row policy,
                 const void* given = nullptr) {
  core::with_output<In>(y.type, [&]<class Out>(Out) {
    if constexpr (!Fold::only_plain || std::is_same_v<In, Out>) {
      if (log) {
        run_map(on,
                softmax_map<map_operation::log_softmax, In, Out, Fold>::of(fold, y, policy, given));
      } else {
        run_map(on, softmax_map<map_operation::softmax, In, Out, Fold>::of(fold, y, policy, given));
      }
    }
  });
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
  with_fold<In>(p.edits, p.x, p.scale, [&](const auto& fold) {
    if (p.what == core::operation::logsumexp) {
      run_reduction(on, fold, {p.y.data, lse_kind(p.y.type)});
    } else {
      run_softmax<In>(on, fold, p.what == core::operation::log_softmax, p.y, p.policy);
    }
  });
}

template <class In>
void run_as(executor& on, const core::normalize_problem& p) {
  with_fold<In>(p.edits, p.x, p.scale, [&](const auto& fold) {
    run_softmax<In>(on, fold, p.log, p.y, p.policy, p.partials.data);
  });
}

template <class In>
void run_as(executor& on, const core::fold_problem& p) {
  with_fold<In>(p.edits, p.x, p.scale, [&](const auto& fold) {
    run_reduction(on, fold, {p.partials.data, result_kind::partial});
  });
}

template <class In>
void run_as(executor& on, const core::backward_problem& p) {
  core::with_output<In>(p.dx.type, [&]<class Out>(Out) {
    if (p.log) {
      run_map(on, gradient_map<gradient_of::log_softmax, In, Out>::of(p));
    } else {
      run_map(on, gradient_map<gradient_of::softmax, In, Out>::of(p));
    }
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
  template void run_as<In>(executor&, const core::backward_problem&);  \
  template void run_as<In>(executor&, const core::normalize_problem&); \
  template void run_as<In>(executor&, const core::fold_problem&);      \
  }                                                                    \
  }                                                                    \
  static_assert(true)
