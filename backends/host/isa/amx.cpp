// SPDX-License-Identifier: Apache-2.0
#include <backends/host/kernels/pairs_avx512.hpp>
#include <backends/host/kernels/tiles_amx.hpp>

#include <backends/host/kernels/attention_amx.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

void attention_bf16(const attention_rows* rows) {
  const double scale = rows->scale < 0 ? -rows->scale : rows->scale;
  if (rows->rows <= attention_few_rows || scale > amx_fold<amx_tiles>::most_scale) {
    return avx512_bf16_kernels.attention_bf16(rows);
  }
  amx_fold<amx_tiles>(*rows).run();
}

}  // namespace

extern const dot_product_kernels amx_kernels = {attention_bf16};

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
