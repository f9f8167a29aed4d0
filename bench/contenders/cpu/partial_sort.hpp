// SPDX-License-Identifier: Apache-2.0
/// \file
/// Top-k by std::partial_sort.
#pragma once

#include "contender.hpp"

#include <softfold/matrix_view.hpp>

namespace softfold::bench {

/// The `values.cols` largest elements of each row of x with their columns, equal ones by column.
[[nodiscard]] work partial_sort_rows(const_matrix_ref x, matrix_ref values, matrix_ref indices,
                                     int threads);

}  // namespace softfold::bench
