// SPDX-License-Identifier: Apache-2.0
/// \file
/// Top-k for one element type, in a translation unit of its own.
#pragma once

#include <gpu/topk/run.hpp>

#define SOFTFOLD_GPU_TOPK(In)                                                            \
  namespace softfold::gpu {                                                              \
  inline namespace SOFTFOLD_BACKEND {                                                    \
  template void run_as<In>(executor&, const core::topk_problem&);                        \
  template span_lists list_spans_as<In>(executor&, const core::topk_problem&, scratch&); \
  }                                                                                      \
  }                                                                                      \
  static_assert(true)
