// SPDX-License-Identifier: Apache-2.0
#include "npy_input.hpp"

#include "failure.hpp"

namespace softfold::tool {

npy_input::npy_input(const std::string& path, bool uint16_is_bfloat16) : file_(path) {
  try {
    npy_header header = parse_npy_header(file_.bytes());
    type_ = npy_element_type(header, uint16_is_bfloat16);
    if (header.shape.empty()) {
      throw npy_error("is a scalar; expected at least one dimension");
    }
    check_npy_file_size(header, size_of(type_), file_.bytes().size());
    shape_ = std::move(header.shape);
    data_offset_ = header.data_offset;
  } catch (const npy_error& error) {
    throw failure(path, error.what());
  }
  cols_ = shape_.back();
  for (const std::int64_t dimension : leading_shape()) {
    rows_ *= dimension;
  }
}

std::vector<std::int64_t> npy_input::shape_with(std::int64_t cols) const {
  std::vector<std::int64_t> result = shape_;
  result.back() = cols;
  return result;
}

}  // namespace softfold::tool
