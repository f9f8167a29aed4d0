// SPDX-License-Identifier: Apache-2.0
#include "npy_output.hpp"

#include "npy.hpp"
#include "sizes.hpp"

#include <numeric>

namespace softfold::tool {

namespace {

std::uint64_t bytes_of(dtype type, std::span<const std::int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{size_of(type)}, capped_product);
}

}  // namespace

npy_output::npy_output(const output_target& target, dtype type, std::span<const std::int64_t> shape)
    : file_(target, bytes_of(type, shape)) {
  const std::string header = make_npy_header(type, shape);
  file_.write(std::as_bytes(std::span(header)));
}

void npy_output::write(const_matrix_ref block) {
  const auto count = static_cast<std::size_t>(block.rows) * static_cast<std::size_t>(block.cols);
  file_.write({static_cast<const std::byte*>(block.data), count * size_of(block.type)});
}

}  // namespace softfold::tool
