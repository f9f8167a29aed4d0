// SPDX-License-Identifier: Apache-2.0
/// \file
/// Attention over a range of keys.
#pragma once

#include <backends/host/kernels/attention_few.hpp>
#include <backends/host/kernels/attention_tiles.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

template <class T>
void attention_kernel(const attention_rows* rows) {
  if (rows->rows <= attention_few_rows) {
    few_rows_fold<T>(*rows).run();
  } else {
    tiles_fold<T>(*rows).run();
  }
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
