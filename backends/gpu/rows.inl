// SPDX-License-Identifier: Apache-2.0
/// \file
/// Instantiates the launches of rows.hpp for one element type. Each type has a translation unit
/// of its own, so that they compile side by side.
#include "rows.hpp"

#define SOFTFOLD_GPU_ROWS(In)                                                                      \
  namespace softfold::gpu {                                                                        \
  inline namespace SOFTFOLD_BACKEND {                                                              \
  template void launch_map<In>(const map_call&, const row_plan&, void*, stream_handle, int);       \
  template void launch_reduction<In>(const reduction_call&, const row_plan&, void*, stream_handle, \
                                     int);                                                         \
  }                                                                                                \
  }                                                                                                \
  static_assert(true)
