// SPDX-License-Identifier: Apache-2.0
#include "long_rows.hpp"

#include "block_buffer.hpp"
#include "device_memory.hpp"
#include "row_blocks.hpp"
#include "state_tree.hpp"

namespace softfold::tool {

row_states long_rows::fold(std::int64_t row, std::int64_t k, double scale,
                           std::int64_t column_offset) {
  state_tree tree(q_);
  device_memory memory(q_);
  for_each_column_block(input_, row, bar_, [&](std::int64_t first, const_matrix_ref block) {
    row_states part(input_.wide_type(), 1, k, scale);
    part.fold(q_, memory.input(block), column_offset + first,
              edits_.of(q_, row, 1, column_range{first, first + block.cols}));
    tree.add(std::move(part));
  });
  return tree.finish();
}

void long_rows::normalize(std::int64_t row, const row_states& states, bool log, empty_row policy,
                          dtype type, npy_output& y) {
  softmax_options options{.scale = states.scale(), .empty_row = policy};
  device_memory memory(q_);
  device_memory result(q_);
  device_memory state(q_);
  const const_partials_ref host = states.partials();
  const const_matrix_ref pair = state.input({host.data, host.type, 1, 2, 2});
  const const_partials_ref partials(pair.data, pair.type, 1);
  for_each_column_block(input_, row, bar_, [&](std::int64_t first, const_matrix_ref block) {
    options.edits = edits_.of(q_, row, 1, column_range{first, first + block.cols});
    const matrix_ref part = result.output(type, 1, block.cols);
    (log ? log_normalize : softfold::normalize)(q_, memory.input(block), partials, part, options);
    y.write(result.fetch(part));
  });
}

void softmax_of_long_rows(const npy_input& x, edit_files& edits, const queue_options& options,
                          const softmax_options& numeric, bool log, dtype type, npy_output& y) {
  long_rows rows(x, edits, options, log ? "log-softmax" : "softmax", 2);
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    rows.normalize(r, rows.fold(r, 0, numeric.scale), log, numeric.empty_row, type, y);
  }
}

void logsumexp_of_long_rows(const npy_input& x, edit_files& edits, const queue_options& options,
                            double scale, npy_output& lse) {
  long_rows rows(x, edits, options, "logsumexp", 1);
  block_buffer memory;
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const matrix_ref value = memory.matrix(x.wide_type(), 1, 1);
    rows.fold(r, 0, scale).finish(rows.on(), {value.data, value.type, 1});
    lse.write(value);
  }
}

void topk_of_long_rows(const npy_input& x, edit_files& edits, const queue_options& options,
                       const char* label, std::int64_t k, double scale,
                       const std::function<void()>& begin, const topk_body& body) {
  long_rows rows(x, edits, options, label, 1);
  begin();
  block_buffer memory;
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const row_states states = rows.fold(r, k, scale);
    const matrix_ref probabilities = memory.matrix(x.wide_type(), 1, k);
    states.finish(rows.on(), {}, probabilities);
    body(probabilities, states.indices(), states.values());
  }
}

}  // namespace softfold::tool
