// SPDX-License-Identifier: Apache-2.0
/// \file
/// An .npy file as a matrix: the last axis is the row, all others together count the rows.
#pragma once

#include "mapped_file.hpp"
#include "npy.hpp"

#include <softfold/matrix_view.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace softfold::tool {

class npy_input {
 public:
  /// Throws failure unless the file is complete and of a type that the command reads.
  npy_input(const std::string& path, bool uint16_is_bfloat16);

  [[nodiscard]] const mapped_file& file() const noexcept { return file_; }
  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }
  [[nodiscard]] dtype type() const noexcept { return type_; }
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::int64_t cols() const noexcept { return cols_; }
  [[nodiscard]] const std::vector<std::int64_t>& shape() const noexcept { return shape_; }
  /// The shape of a result with one value for each row.
  [[nodiscard]] std::vector<std::int64_t> leading_shape() const {
    return {shape_.begin(), shape_.end() - 1};
  }
  /// The shape of a result with `cols` values for each row.
  [[nodiscard]] std::vector<std::int64_t> shape_with(std::int64_t cols) const;

  /// Where the elements start in the file.
  [[nodiscard]] std::size_t data_offset() const noexcept { return data_offset_; }

  /// float64 for float64 elements, otherwise float32.
  [[nodiscard]] dtype wide_type() const noexcept {
    return type_ == dtype::f64 ? dtype::f64 : dtype::f32;
  }

 private:
  mapped_file file_;
  dtype type_ = dtype::f32;
  std::vector<std::int64_t> shape_;
  std::int64_t rows_ = 1;
  std::int64_t cols_ = 0;
  std::size_t data_offset_ = 0;
};

}  // namespace softfold::tool
