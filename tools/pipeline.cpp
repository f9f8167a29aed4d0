// SPDX-License-Identifier: Apache-2.0
#include "pipeline.hpp"

#include "row_blocks.hpp"

#include <softfold/error.hpp>

#include <array>
#include <cstring>

namespace softfold::tool {
namespace {

std::size_t bytes_of(const const_matrix_ref& m) {
  return static_cast<std::size_t>(m.rows) * static_cast<std::size_t>(m.cols) * size_of(m.type);
}

// Memory that is used again for every block.
class block_memory {
 public:
  explicit block_memory(memory kind) : kind_(kind) {}

  // The content is lost when the memory has to grow. The queue must be idle.
  matrix_ref matrix(queue& q, dtype type, std::int64_t rows, std::int64_t cols) {
    const std::size_t bytes = bytes_of(matrix_ref(nullptr, type, rows, cols, cols));
    if (bytes > held_.size()) {
      held_ = {};
      held_ = buffer(q, bytes, kind_);
    }
    return {held_.data(), type, rows, cols, cols};
  }
  void upload(queue& q, const const_matrix_ref& from) {
    held_.upload(q, from.data, bytes_of(from));
  }
  void download(queue& q, const matrix_ref& to) const { held_.download(q, to.data, bytes_of(to)); }

 private:
  memory kind_;
  buffer held_;
};

// The results of a block in one kind of memory.
class result_memory {
 public:
  result_memory(memory kind, const std::vector<row_result>& results) : results_(&results) {
    for (std::size_t i = 0; i < results.size(); ++i) {
      memories_.emplace_back(kind);
    }
  }

  block_results matrices(queue& q, std::int64_t rows) {
    matrices_.clear();
    for (std::size_t i = 0; i < memories_.size(); ++i) {
      const row_result& result = (*results_)[i];
      matrices_.push_back(memories_[i].matrix(q, result.type, rows, result.cols));
    }
    return matrices_;
  }
  [[nodiscard]] block_results matrices() const noexcept { return matrices_; }
  void download(queue& q, block_results to) const {
    for (std::size_t i = 0; i < memories_.size(); ++i) {
      memories_[i].download(q, to[i]);
    }
  }

 private:
  const std::vector<row_result>* results_;
  std::vector<block_memory> memories_;
  std::vector<matrix_ref> matrices_;
};

// One of the two queues that take turns, with the memory of the block that it works on.
class lane {
 public:
  lane(const queue_options& options, const block_work& work)
      : work_(&work),
        q_(options),
        host_results_(memory::host, work.results),
        device_results_(memory::device, work.results) {}
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;
  ~lane() {
    try {
      q_.wait();              // an exception may have come while the device still used the memory
    } catch (const error&) {  // NOLINT(bugprone-empty-catch): one error is on its way already
    }
  }

  // The block may be gone when this returns.
  void start(std::int64_t first, const const_matrix_ref& block) {
    const matrix_ref host_x = host_x_.matrix(q_, block.type, block.rows, block.cols);
    const matrix_ref x = device_x_.matrix(q_, block.type, block.rows, block.cols);
    const block_results host = host_results_.matrices(q_, block.rows);
    const block_results device = device_results_.matrices(q_, block.rows);
    if (bytes_of(block) > 0) {
      std::memcpy(host_x.data, block.data, bytes_of(block));
    }
    device_x_.upload(q_, host_x);
    work_->compute(q_, first, x, device);
    device_results_.download(q_, host);
    busy_ = true;
  }
  // Hands over the results of the block that was started, if there is one.
  void finish() {
    if (busy_) {
      q_.wait();
      busy_ = false;
      work_->take(host_results_.matrices());
    }
  }

 private:
  const block_work* work_;
  queue q_;
  block_memory host_x_{memory::host};
  block_memory device_x_{memory::device};
  result_memory host_results_;
  result_memory device_results_;
  bool busy_ = false;
};

bool works_in_host_memory(const queue& q) { return q.info().backend == "cpu"; }

}  // namespace

void compute_blocks(const npy_input& input, const queue_options& options, const char* label,
                    const block_work& work, transfer copies) {
  std::size_t row_bytes = 0;
  for (const row_result& result : work.results) {
    row_bytes += static_cast<std::size_t>(result.cols) * size_of(result.type);
  }
  const auto begin = [&] {
    if (work.begin) {
      work.begin();
    }
  };
  if (queue q(options); copies == transfer::automatic && works_in_host_memory(q)) {
    begin();
    result_memory results(memory::host, work.results);
    for_each_block(input, row_bytes, label, [&](std::int64_t first, const_matrix_ref block) {
      const block_results y = results.matrices(q, block.rows);
      work.compute(q, first, block, y);
      q.wait();
      work.take(y);
    });
    return;
  }
  std::array<lane, 2> lanes{lane(options, work), lane(options, work)};
  begin();
  std::size_t turn = 0;
  for_each_block(input, row_bytes, label, [&](std::int64_t first, const_matrix_ref block) {
    lanes[turn].finish();
    lanes[turn].start(first, block);
    turn = 1 - turn;
  });
  lanes[turn].finish();
  lanes[1 - turn].finish();
}

}  // namespace softfold::tool
