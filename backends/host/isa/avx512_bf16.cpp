// SPDX-License-Identifier: Apache-2.0
#include <backends/host/kernels/vec_avx512.hpp>

#include <backends/host/kernels/attention_pairs.hpp>
#include <backends/host/kernels/attention_rows.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

void attention_bf16(const attention_rows* rows) {
  const double scale = rows->scale < 0 ? -rows->scale : rows->scale;
  if (scale > pairs_fold::most_scale) {
    return avx512_kernels.attention[input_bf16](rows);
  }
  by_row_blocks<float>(
      *rows, attention_few_rows, [](const attention_rows& many) { pairs_fold(many).run(); },
      [](const attention_rows& few) { avx512_kernels.attention[input_bf16](&few); });
}

}  // namespace

extern const dot_product_kernels avx512_bf16_kernels = {attention_bf16};

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
