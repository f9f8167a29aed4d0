// SPDX-License-Identifier: Apache-2.0
/// \file
/// An .npy file written block by block.
#pragma once

#include "atomic_output.hpp"

#include <softfold/matrix_view.hpp>

#include <cstdint>
#include <span>

namespace softfold::tool {

class npy_output {
 public:
  /// Throws failure as atomic_output.
  npy_output(const output_target& target, dtype type, std::span<const std::int64_t> shape);

  /// Appends rows without gaps between them.
  void write(const_matrix_ref block);

  [[nodiscard]] atomic_output& file() noexcept { return file_; }

 private:
  atomic_output file_;
};

}  // namespace softfold::tool
