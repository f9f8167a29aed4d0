// SPDX-License-Identifier: Apache-2.0
/// \file
/// Instantiates the launch of topk.hpp for one element type.
#include "topk.hpp"

#define SOFTFOLD_GPU_TOPK(In)                                                                   \
  namespace softfold::gpu {                                                                     \
  inline namespace SOFTFOLD_BACKEND {                                                           \
  template void launch_topk<In>(const topk_call&, const topk_plan&, void*, stream_handle, int); \
  }                                                                                             \
  }                                                                                             \
  static_assert(true)
