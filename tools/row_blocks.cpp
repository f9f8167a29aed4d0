// SPDX-License-Identifier: Apache-2.0
#include "row_blocks.hpp"

#include "block_buffer.hpp"
#include "progress.hpp"

#include <algorithm>
#include <cstring>

namespace softfold::tool {
namespace {

// Large enough to occupy many threads, small enough that a block's output is still in a
// last-level cache when it is written to the file.
constexpr std::size_t block_bytes = std::size_t{16} << 20;

// Elements of the file in turn, of which about two blocks are resident at a time.
class window {
 public:
  explicit window(const npy_input& input)
      : input_(input),
        element_(size_of(input.type())),
        aligned_(input.data_offset() % element_ == 0) {}

  // body(elements first, ..., first + count - 1)
  template <class Body>
  void show(std::int64_t first, std::int64_t count, Body&& body) {
    const std::size_t begin = input_.data_offset() + static_cast<std::size_t>(first) * element_;
    const std::size_t size = static_cast<std::size_t>(count) * element_;
    input_.file().prefetch(begin + size, size);
    const std::byte* data = input_.file().bytes().data() + begin;
    if (!aligned_) {
      data = static_cast<std::byte*>(std::memcpy(copy_.reserve(size), data, size));
    }
    body(data);
    input_.file().release(begin, begin + size);
  }

 private:
  const npy_input& input_;
  std::size_t element_;
  bool aligned_;
  block_buffer copy_;
};

std::size_t row_bytes_of(const npy_input& input) {
  return static_cast<std::size_t>(input.cols()) * size_of(input.type());
}

}  // namespace

bool has_long_rows(const npy_input& input) { return row_bytes_of(input) > block_bytes; }

void for_each_block(const npy_input& input, std::size_t output_row_bytes, const char* label,
                    const block_body& body) {
  const std::size_t bytes_of_row = std::max<std::size_t>(row_bytes_of(input) + output_row_bytes, 1);
  const auto block_rows =
      static_cast<std::int64_t>(std::max<std::size_t>(block_bytes / bytes_of_row, 1));
  window elements(input);
  progress bar(label, input.rows());
  for (std::int64_t first = 0; first < input.rows(); first += block_rows) {
    const std::int64_t rows = std::min(block_rows, input.rows() - first);
    elements.show(first * input.cols(), rows * input.cols(), [&](const std::byte* data) {
      body(first, {data, input.type(), rows, input.cols(), input.cols()});
    });
    bar.advance(rows);
  }
}

void for_each_column_block(const npy_input& input, std::int64_t row, progress& bar,
                           const block_body& body) {
  const auto block = static_cast<std::int64_t>(block_bytes / size_of(input.type()));
  window elements(input);
  for (std::int64_t first = 0; first < input.cols(); first += block) {
    const std::int64_t cols = std::min(block, input.cols() - first);
    elements.show(row * input.cols() + first, cols, [&](const std::byte* data) {
      body(first, {data, input.type(), 1, cols, cols});
    });
    bar.advance(cols);
  }
}

}  // namespace softfold::tool
