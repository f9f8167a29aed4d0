// SPDX-License-Identifier: Apache-2.0
/// \file
/// The jobs of rows.inl's problems for one element type. Each type has a translation unit of its
/// own, so that they compile side by side.
#pragma once

#include <gpu/job/gradient.hpp>
#include <gpu/job/softmax.hpp>
#include <gpu/map/run.hpp>
#include <gpu/typed.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class In>
void run_as(executor& on, const core::row_problem& p) {
  const auto fold = softmax_fold<In>::of(p.x, p.scale);
  if (p.what == core::operation::logsumexp) {
    return run_reduction(on, fold, {p.y.data, lse_kind(p.y.type)});
  }
  core::with_output<In>(p.y.type, [&]<class Out>(Out) {
    if (p.what == core::operation::log_softmax) {
      run_map(on, softmax_map<map_operation::log_softmax, In, Out>::of(fold, p.y, p.policy));
    } else {
      run_map(on, softmax_map<map_operation::softmax, In, Out>::of(fold, p.y, p.policy));
    }
  });
}

template <class In>
void run_as(executor& on, const core::normalize_problem& p) {
  const auto fold = softmax_fold<In>::of(p.x, p.scale);
  const void* const given = p.partials.data;
  core::with_output<In>(p.y.type, [&]<class Out>(Out) {
    if (p.log) {
      run_map(on, softmax_map<map_operation::log_softmax, In, Out>::of(fold, p.y, p.policy, given));
    } else {
      run_map(on, softmax_map<map_operation::softmax, In, Out>::of(fold, p.y, p.policy, given));
    }
  });
}

template <class In>
void run_as(executor& on, const core::fold_problem& p) {
  run_reduction(on, softmax_fold<In>::of(p.x, p.scale), {p.partials.data, result_kind::partial});
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
  template void run_as<In>(executor&, const core::row_problem&);       \
  template void run_as<In>(executor&, const core::backward_problem&);  \
  template void run_as<In>(executor&, const core::normalize_problem&); \
  template void run_as<In>(executor&, const core::fold_problem&);      \
  }                                                                    \
  }                                                                    \
  static_assert(true)
