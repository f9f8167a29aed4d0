// SPDX-License-Identifier: Apache-2.0
#include "long_rows.hpp"

#include "block_buffer.hpp"
#include "device_memory.hpp"
#include "row_blocks.hpp"
#include "state_tree.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace softfold::tool {

row_states long_rows::fold(std::int64_t row, std::int64_t k, double scale,
                           std::int64_t column_offset) {
  state_tree<row_states> tree(q_);
  device_memory memory(q_);
  for_each_column_block(input_, row, bar_, [&](std::int64_t first, const_matrix_ref block) {
    row_states part(input_.wide_type(), 1, k, scale, numerics_);
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
  const_partials_ref partials = states.partials();
  const auto bytes = static_cast<std::int64_t>(size_of_state(partials.type, partials.sum));
  partials.data = state.input({partials.data, dtype::u8, 1, bytes, bytes}).data;
  for_each_column_block(input_, row, bar_, [&](std::int64_t first, const_matrix_ref block) {
    options.edits = edits_.of(q_, row, 1, column_range{first, first + block.cols});
    const matrix_ref part = result.output(type, 1, block.cols);
    (log ? log_normalize : softfold::normalize)(q_, memory.input(block), partials, part, options);
    y.write(result.fetch(part));
  });
}

namespace {

/// What one draw has to know of a row, on the queue's device.
class sample_part {
 public:
  sample_part(queue& q, dtype type, std::int64_t k)
      : type_(type),
        k_(k),
        state_(q, sizeof(sample_state)),
        values_(q, static_cast<std::size_t>(k) * size_of(type)),
        indices_(q, static_cast<std::size_t>(k) * sizeof(std::int64_t)) {}

  [[nodiscard]] sample_states_ref state() const {
    return {static_cast<sample_state*>(state_.data()), 1};
  }
  [[nodiscard]] matrix_ref values() const { return {values_.data(), type_, 1, k_, k_}; }
  [[nodiscard]] matrix_ref indices() const { return {indices_.data(), dtype::i64, 1, k_, k_}; }
  [[nodiscard]] bool has_list() const { return k_ > 0; }

  void fold(queue& q, const_matrix_ref block, const fold_sample_options& how) const {
    fold_sample(q, block, state(), has_list() ? values() : matrix_ref{},
                has_list() ? indices() : matrix_ref{}, how);
  }
  void add(queue& q, const sample_part& more) const {
    if (has_list()) {
      combine_sample(q, more.state(), more.values(), more.indices(), state(), values(), indices());
    } else {
      combine_sample(q, more.state(), state());
    }
  }

 private:
  dtype type_;
  std::int64_t k_;
  buffer state_, values_, indices_;
};

}  // namespace

std::vector<std::int64_t> long_rows::sample(std::int64_t row, std::int64_t count,
                                            fold_sample_options how) {
  const auto new_part = [&] { return sample_part(q_, input_.wide_type(), how.top_k); };
  std::vector<sample_part> draws;
  const sample_part part = new_part();
  device_memory memory(q_);
  for_each_column_block(input_, row, bar_, [&](std::int64_t first, const_matrix_ref block) {
    const const_matrix_ref x = memory.input(block);
    how.column_offset = first;
    how.edits = edits_.of(q_, row, 1, column_range{first, first + block.cols});
    for (how.draw = 0; how.draw < count; ++how.draw) {
      if (first == 0) {
        draws.push_back(new_part());
        draws.back().fold(q_, x, how);
      } else {
        part.fold(q_, x, how);
        draws[static_cast<std::size_t>(how.draw)].add(q_, part);
      }
    }
    q_.wait();
  });
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(count));
  device_memory token(q_);
  for (std::size_t i = 0; i < draws.size(); ++i) {
    const matrix_ref to = token.output(dtype::i64, 1, 1);
    finish_sample(q_, draws[i].state(), draws[i].values(), draws[i].indices(),
                  {to.data, dtype::i64, 1});
    tokens[i] = *static_cast<const std::int64_t*>(token.fetch(to).data);
  }
  return tokens;
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

bool can_sample_by_columns(const npy_input& x, const sample_options& how) {
  const bool has_other_filters = how.top_p != 1 || how.min_p != 0;
  return x.cols() <= std::numeric_limits<std::int32_t>::max() &&
         (how.top_k > 0 || !has_other_filters) &&
         (how.top_p == 1 || how.order == filter_order::top_k_first);
}

void sample_of_long_rows(const npy_input& x, edit_files& edits, const queue_options& options,
                         const char* label, std::int64_t draws, const sample_options& how,
                         const tokens_body& body) {
  long_rows rows(x, edits, options, label, 1);
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const std::vector<std::int64_t> tokens =
        rows.sample(r, draws,
                    {.temperature = how.temperature,
                     .top_k = std::min(how.top_k, x.cols()),
                     .top_p = how.top_p,
                     .min_p = how.min_p,
                     .seed = how.seed,
                     .offset = how.offset + static_cast<std::uint64_t>(r)});
    body({tokens.data(), dtype::i64, 1, draws, draws});
  }
}

}  // namespace softfold::tool
