// SPDX-License-Identifier: Apache-2.0
/// \file
/// Rows of any length, also longer than memory: worked on by columns, as states that combine.
#pragma once

#include "edit_files.hpp"
#include "npy_input.hpp"
#include "npy_output.hpp"
#include "progress.hpp"

#include <softfold/row_states.hpp>

#include <cstdint>
#include <functional>
#include <vector>

namespace softfold::tool {

class long_rows {
 public:
  /// `passes` over the file will be made; `label` names the work in the progress bar, null for
  /// none.
  long_rows(const npy_input& input, edit_files& edits, const queue_options& options,
            const char* label, int passes)
      : input_(input),
        edits_(edits),
        q_(options),
        numerics_(options.numerics),
        bar_(label, input.rows() * input.cols() * passes) {}

  /// The states of all columns of a row, the first one being `column_offset`.
  [[nodiscard]] row_states fold(std::int64_t row, std::int64_t k, double scale,
                                std::int64_t column_offset = 0);

  /// Appends the softmax of a row, or its logarithm, to the output, given its states.
  void normalize(std::int64_t row, const row_states& states, bool log, empty_row policy, dtype type,
                 npy_output& y);

  /// Draws 0, ..., count - 1 of a row, whose offset is how.offset.
  [[nodiscard]] std::vector<std::int64_t> sample(std::int64_t row, std::int64_t count,
                                                 fold_sample_options how);

  [[nodiscard]] queue& on() noexcept { return q_; }

 private:
  const npy_input& input_;
  edit_files& edits_;
  queue q_;
  numerics numerics_;
  progress bar_;
};

/// The commands on files whose rows are long, block by block of columns.
void softmax_of_long_rows(const npy_input& x, edit_files& edits, const queue_options& options,
                          const softmax_options& numeric, bool log, dtype type, npy_output& y);
void logsumexp_of_long_rows(const npy_input& x, edit_files& edits, const queue_options& options,
                            double scale, npy_output& lse);

/// Is given one row's top-k at a time, each [1, k], in the host's memory.
using topk_body = std::function<void(const_matrix_ref probabilities, const_matrix_ref indices,
                                     const_matrix_ref logits)>;
/// `begin` is called once, when the queue is there.
void topk_of_long_rows(const npy_input& x, edit_files& edits, const queue_options& options,
                       const char* label, std::int64_t k, double scale,
                       const std::function<void()>& begin, const topk_body& body);

/// Whether long rows can be sampled from by columns: with filters that a state keeps enough for.
bool can_sample_by_columns(const npy_input& x, const sample_options& how);
/// Is given one row's tokens at a time, [1, draws], in the host's memory. Row r has offset
/// how.offset + r.
using tokens_body = std::function<void(const_matrix_ref tokens)>;
void sample_of_long_rows(const npy_input& x, edit_files& edits, const queue_options& options,
                         const char* label, std::int64_t draws, const sample_options& how,
                         const tokens_body& body);

}  // namespace softfold::tool
