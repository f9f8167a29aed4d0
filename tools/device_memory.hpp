// SPDX-License-Identifier: Apache-2.0
/// \file
/// Blocks in memory of the queue's device; where calls work in the host's memory, without copies.
#pragma once

#include <softfold/buffer.hpp>
#include <softfold/matrix_view.hpp>
#include <softfold/queue.hpp>

#include <cstddef>
#include <vector>

namespace softfold::tool {

inline bool shares_host_memory(const queue& q) { return q.info().backend == "cpu"; }

inline std::size_t packed_bytes(const const_matrix_ref& m) {
  return static_cast<std::size_t>(m.rows) * static_cast<std::size_t>(m.cols) * size_of(m.type);
}

/// Memory that is used again for every block.
class device_memory {
 public:
  explicit device_memory(queue& q) : q_(q) {}

  /// A block of the host's as the queue's calls can read it. Valid until the next use.
  const_matrix_ref input(const const_matrix_ref& block) {
    if (shares_host_memory(q_)) {
      return block;
    }
    const matrix_ref copy = output(block.type, block.rows, block.cols);
    held_.upload(q_, block.data, packed_bytes(block));
    return copy;
  }

  /// A block that the queue's calls can write. Its content is lost.
  matrix_ref output(dtype type, std::int64_t rows, std::int64_t cols) {
    const matrix_ref block(nullptr, type, rows, cols, cols);
    if (const std::size_t bytes = packed_bytes(block); bytes > held_.size()) {
      q_.wait();
      held_ = {};
      held_ = buffer(q_, bytes);
    }
    return {held_.data(), type, rows, cols, cols};
  }

  /// A block that output() gave, in the host's memory, when all work on the queue is complete.
  const_matrix_ref fetch(const matrix_ref& block) {
    if (shares_host_memory(q_)) {
      q_.wait();
      return block;
    }
    host_.resize(packed_bytes(block));
    held_.download(q_, host_.data(), host_.size());
    q_.wait();
    return {host_.data(), block.type, block.rows, block.cols, block.cols};
  }

 private:
  queue& q_;
  buffer held_;
  std::vector<std::byte> host_;
};

}  // namespace softfold::tool
