// SPDX-License-Identifier: Apache-2.0
#include <backends/host/kernels/pairs_avx512.hpp>
#include <backends/host/kernels/tiles_amx.hpp>

#include <backends/host/kernels/attention_amx.hpp>

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

/// Rows from `first` on.
attention_rows rows_from(const attention_rows& all, int first) {
  attention_rows some = all;
  some.rows -= first;
  some.q_offsets += first;
  some.first += first;
  some.last += first;
  some.position += first;
  some.slope += all.slope != nullptr ? first : 0;
  some.bias += all.bias != nullptr ? first : 0;
  some.max = static_cast<float*>(all.max) + first;
  some.sum += first;
  some.weighted = static_cast<float*>(all.weighted) + first * all.weighted_stride;
  return some;
}

void attention_bf16(const attention_rows* rows) {
  // Which kernel a row goes to depends on its row block, not on how many are given.
  const double scale = rows->scale < 0 ? -rows->scale : rows->scale;
  const int last = rows->rows % attention_row_block;
  const int left = scale > amx_fold<amx_tiles>::most_scale ? rows->rows
                   : last <= few_rows(*rows)               ? last
                                                           : 0;
  attention_rows some = *rows;
  some.rows -= left;
  if (some.rows > 0) {
    amx_fold<amx_tiles>(some).run();
  }
  for (int r = some.rows; r < rows->rows; r += attention_row_block) {
    attention_rows block = rows_from(*rows, r);
    block.rows = block.rows < attention_row_block ? block.rows : attention_row_block;
    avx512_bf16_kernels.attention_bf16(&block);
  }
}

}  // namespace

extern const dot_product_kernels amx_kernels = {attention_bf16};

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
