// SPDX-License-Identifier: Apache-2.0
#include <backends/host/kernels/pairs_avx512.hpp>
#include <backends/host/kernels/tiles_amx.hpp>

#include <backends/host/kernels/attention_amx.hpp>
#include <backends/host/kernels/attention_rows.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {
namespace {

/// So few rows of the last row block are left to AVX512_BF16, which is quicker there (measured:
/// docs/notes.md).
int few_rows(const attention_rows& rows) {
  const int dims = rows.dim + rows.v_dim;
  return dims >= 64 ? attention_few_rows : dims > 16 ? 20 : 64;
}

void attention_bf16(const attention_rows* rows) {
  const auto by_dot_products = [](const attention_rows& some) {
    avx512_bf16_kernels.attention_bf16(&some);
  };
  const double scale = rows->scale < 0 ? -rows->scale : rows->scale;
  if (scale > amx_fold<amx_tiles>::most_scale) {
    return by_dot_products(*rows);
  }
  by_row_blocks<float>(
      *rows, few_rows(*rows), [](const attention_rows& many) { amx_fold<amx_tiles>(many).run(); },
      by_dot_products);
}

}  // namespace

extern const dot_product_kernels amx_kernels = {attention_bf16};

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
