// SPDX-License-Identifier: Apache-2.0
/// \file
/// A oneDNN softmax over the rows of a matrix.
#pragma once

#include "contender.hpp"

#include <softfold/matrix_view.hpp>

#include <string>

namespace softfold::bench::onednn {

/// y = softmax(x), or its logarithm, by `threads` threads. Empty work where oneDNN does not take
/// the element type on this machine.
[[nodiscard]] work softmax(const_matrix_ref x, matrix_ref y, bool logarithm, int threads);

/// dx = the gradient of the input, given the softmax y, or its logarithm, and the gradient of y.
[[nodiscard]] work softmax_backward(const_matrix_ref y, const_matrix_ref dy, matrix_ref dx,
                                    bool logarithm, int threads);

[[nodiscard]] std::string version();

}  // namespace softfold::bench::onednn
