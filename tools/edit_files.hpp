// SPDX-License-Identifier: Apache-2.0
/// \file
/// --bias, --mask, --lengths and --softcap: files beside the input, as edits of its rows.
#pragma once

#include "block_buffer.hpp"
#include "device_memory.hpp"
#include "mapped_file.hpp"
#include "npy_input.hpp"

#include <CLI/CLI.hpp>

#include <softfold/row_edits.hpp>
#include <softfold/row_states.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace softfold::tool {

struct edit_options {
  std::string bias;
  std::string mask;
  std::string lengths;
  double softcap = 0;
};

void add_edit_options(CLI::App& command, edit_options& options);

class edit_files {
 public:
  /// Throws failure unless each file goes with the input's rows.
  edit_files(const edit_options& options, const npy_input& x);

  /// Those of rows [first, first + rows), all of their columns or some of one row's. In memory that
  /// calls on the queue can read; valid until the next use for that queue, which must have ended
  /// its work on these by then.
  [[nodiscard]] row_edits of(queue& q, std::int64_t first, std::int64_t rows,
                             std::optional<column_range> columns = {});

 private:
  /// A file whose last axis goes with the columns, or, for one number a row, is not there.
  struct edit_file {
    edit_file(const std::string& path, const npy_input& x, bool is_real, bool is_vector);

    mapped_file file;
    dtype type;
    std::size_t data_offset;
    std::int64_t rows;  ///< the input's, or one for all
    std::int64_t cols;
  };
  /// What a queue's calls read.
  struct queue_memory {
    explicit queue_memory(queue& q) : bias(q), mask(q), lengths(q) {}
    device_memory bias, mask, lengths;
    block_buffer bias_copy, mask_copy, lengths_copy;
    std::int64_t length = 0;
  };

  static const_matrix_ref rows_of(const edit_file& from, std::int64_t first, std::int64_t rows,
                                  std::int64_t column, std::int64_t cols, device_memory& memory,
                                  block_buffer& copy);

  [[nodiscard]] std::int64_t length_from(std::int64_t row, std::int64_t column) const;

  std::int64_t cols_;
  std::optional<edit_file> bias_;
  std::optional<edit_file> mask_;
  std::optional<edit_file> lengths_;
  double softcap_;
  std::map<queue*, std::unique_ptr<queue_memory>> memories_;
};

}  // namespace softfold::tool
