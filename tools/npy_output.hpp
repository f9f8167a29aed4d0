// SPDX-License-Identifier: Apache-2.0
/// \file
/// An .npy file written block by block.
#pragma once

#include "atomic_output.hpp"
#include "npy_input.hpp"

#include <softfold/matrix_view.hpp>

#include <cstdint>
#include <span>

namespace softfold::tool {

class npy_output {
 public:
  /// Throws failure if the file cannot be written, or is the input.
  npy_output(const output_target& target, dtype type, std::span<const std::int64_t> shape,
             const mapped_file& input);
  npy_output(const output_target& target, dtype type, std::span<const std::int64_t> shape,
             const npy_input& input)
      : npy_output(target, type, shape, input.file()) {}

  /// Appends rows without gaps between them.
  void write(const_matrix_ref block);

  [[nodiscard]] atomic_output& file() noexcept { return file_; }

 private:
  atomic_output file_;
};

}  // namespace softfold::tool
