// SPDX-License-Identifier: Apache-2.0
/// \file
/// softmax and log-softmax of rows of one element type, or with the rows' states given.
#pragma once

#include <gpu/job/masked_softmax.hpp>
#include <gpu/map/run.hpp>
#include <gpu/typed.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

template <class In, bool log>
void run_softmax_as(executor& on, const softmax_rows& rows) {
  constexpr map_operation op = log ? map_operation::log_softmax : map_operation::softmax;
  with_fold<In>(rows.edits, rows.x, rows.scale, [&]<class Fold>(const Fold& fold) {
    core::with_output<In>(rows.y.type, [&]<class Out>(Out) {
      if constexpr (!Fold::only_plain || std::is_same_v<In, Out>) {
        run_map(on, softmax_map<op, In, Out, Fold>::of(fold, rows.y, rows.policy, rows.states));
      }
    });
  });
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

#define SOFTFOLD_GPU_SOFTMAX_AS(In, log)                                          \
  namespace softfold::gpu {                                                       \
  inline namespace SOFTFOLD_BACKEND {                                             \
  template void run_softmax_as<In, log>(executor & on, const softmax_rows& rows); \
  }                                                                               \
  }                                                                               \
  static_assert(true)
#define SOFTFOLD_GPU_SOFTMAX(In) SOFTFOLD_GPU_SOFTMAX_AS(In, false)
#define SOFTFOLD_GPU_LOG_SOFTMAX(In) SOFTFOLD_GPU_SOFTMAX_AS(In, true)
