// SPDX-License-Identifier: Apache-2.0
/// \file
/// The backward functions of rows of one element type.
#pragma once

#include <gpu/job/gradient.hpp>
#include <gpu/map/run.hpp>
#include <gpu/typed.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

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

#define SOFTFOLD_GPU_GRADIENTS(In)                                    \
  namespace softfold::gpu {                                           \
  inline namespace SOFTFOLD_BACKEND {                                 \
  template void run_as<In>(executor&, const core::backward_problem&); \
  }                                                                   \
  }                                                                   \
  static_assert(true)
