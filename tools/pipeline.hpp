// SPDX-License-Identifier: Apache-2.0
/// \file
/// Computes on the rows of a file, whatever memory the backend works in.
#pragma once

#include "npy_input.hpp"

#include <softfold/buffer.hpp>
#include <softfold/queue.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace softfold::tool {

/// What a command computes: for each row `cols` elements of `type`.
struct row_result {
  dtype type = dtype::f32;
  std::int64_t cols = 0;
};

/// The results of one block, as many matrices as the command has results.
using block_results = std::span<const matrix_ref>;

struct block_work {
  std::vector<row_result> results = {};
  /// Enqueues the work on a block, in memory of the queue's device, given the number of its first
  /// row. Does not wait for it.
  std::function<void(queue& q, std::int64_t first, const_matrix_ref block, block_results results)>
      compute = {};
  /// Is given the results of each block in the host's memory, in the order of the rows. They are
  /// gone when it returns.
  std::function<void(block_results results)> take = {};
  /// If it is set: called once before the first block, when the queues are there.
  std::function<void()> begin = {};
};

enum class transfer {
  automatic,  ///< none where calls work in the host's memory
  always,     ///< as for a device whose memory is its own
};

/// Does `work` for all rows of `input`, block by block as for_each_block(). Where calls work in
/// the host's memory they read the mapped file itself. Otherwise two queues take turns: while the
/// device copies and computes one block, the host writes the results of the block before and
/// reads the next. `label` names the work in the progress bar, null for none.
void compute_blocks(const npy_input& input, const queue_options& options, const char* label,
                    const block_work& work, transfer copies = transfer::automatic);

}  // namespace softfold::tool
