// SPDX-License-Identifier: Apache-2.0
/// \file
/// Small .npy files of one axis: a number for each head, or for each batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace softfold::tool {

/// The elements of a file of float32 or float64. Throws failure if it has another type, or not
/// `count` on one axis: `what` says of what there is one each.
[[nodiscard]] std::vector<double> read_real_vector(const std::string& path, std::int64_t count,
                                                   const std::string& what);
/// The same of int32 or int64.
[[nodiscard]] std::vector<std::int64_t> read_integer_vector(const std::string& path,
                                                            std::int64_t count,
                                                            const std::string& what);

}  // namespace softfold::tool
