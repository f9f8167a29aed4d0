// SPDX-License-Identifier: Apache-2.0
/// \file
/// Works through a file of any size in bounded memory.
#pragma once

#include "npy_input.hpp"

#include <functional>

namespace softfold::tool {

/// Called with the index of a block's first row, or column, and the block.
using block_body = std::function<void(std::int64_t first, const_matrix_ref block)>;

class progress;

/// Whether a row is longer than a block: better worked on by columns.
bool has_long_rows(const npy_input& input);

/// Calls `body` for all rows of `input`, in order, in blocks of whole rows. A block and its
/// outputs, `output_row_bytes` for each row, take 16 MiB, or one row where that is more; about
/// two blocks of the file are resident at a time. `label` names the work in the progress bar,
/// null for none.
void for_each_block(const npy_input& input, std::size_t output_row_bytes, const char* label,
                    const block_body& body);

/// Calls `body` for all columns of one row, in order, in blocks of 16 MiB.
void for_each_column_block(const npy_input& input, std::int64_t row, progress& bar,
                           const block_body& body);

}  // namespace softfold::tool
