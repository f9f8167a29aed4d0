// SPDX-License-Identifier: Apache-2.0
/// \file
/// Attention over a range of keys.
#pragma once

#include <backends/host/kernels/attention_few.hpp>
#include <backends/host/kernels/attention_rows.hpp>
#include <backends/host/kernels/attention_tiles.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

template <class T>
void attention_kernel(const attention_rows* rows) {
  by_row_blocks<arithmetic_t<T>>(
      *rows, attention_few_rows, [](const attention_rows& many) { tiles_fold<T>(many).run(); },
      [](const attention_rows& few) { few_rows_fold<T>(few).run(); });
}

}  // namespace
}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
