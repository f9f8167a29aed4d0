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

}  // namespace

void for_each_block(const npy_input& input, std::size_t output_row_bytes, const char* label,
                    const block_body& body) {
  const std::size_t element = size_of(input.type());
  const std::size_t row_bytes = static_cast<std::size_t>(input.cols()) * element;
  const std::size_t bytes_of_row = std::max<std::size_t>(row_bytes + output_row_bytes, 1);
  const auto block_rows =
      static_cast<std::int64_t>(std::max<std::size_t>(block_bytes / bytes_of_row, 1));
  const std::byte* const data = input.file().bytes().data() + input.data_offset();
  const bool aligned = input.data_offset() % element == 0;
  block_buffer copy;
  progress bar(label, input.rows());

  for (std::int64_t first = 0; first < input.rows(); first += block_rows) {
    const std::int64_t rows = std::min(block_rows, input.rows() - first);
    const std::size_t begin = static_cast<std::size_t>(first) * row_bytes;
    const std::size_t size = static_cast<std::size_t>(rows) * row_bytes;
    input.file().prefetch(input.data_offset() + begin + size, size);
    const std::byte* block = data + begin;
    if (!aligned) {
      block = static_cast<std::byte*>(std::memcpy(copy.reserve(size), block, size));
    }
    body(first, {block, input.type(), rows, input.cols(), input.cols()});
    input.file().release(input.data_offset() + begin, input.data_offset() + begin + size);
    bar.advance(rows);
  }
}

}  // namespace softfold::tool
