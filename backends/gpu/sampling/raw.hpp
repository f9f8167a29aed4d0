// SPDX-License-Identifier: Apache-2.0
/// \file
/// Log-probabilities of the first elements of rows as they are.
#pragma once

#include <gpu/row/row_reader.hpp>
#include <gpu/sampling/results.hpp>

#include <core/typed_memory.hpp>

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// In the place of the elements.
inline __global__ void __launch_bounds__(reader_threads)
    raw_of_first(const matrix_ref elements, const raw_row* raws) {
  wait_for_launch_before();
  let_next_begin();
  const std::int64_t number = std::int64_t{blockIdx.x} * reader_threads + threadIdx.x;
  const std::int64_t row = number / elements.cols;
  if (row < elements.rows) {
    const std::int64_t at = row * elements.stride + number % elements.cols;
    core::sampling::write_result(
        elements.data, elements.type, at,
        raw_log(raws[row], core::real_at<float>(elements.data, elements.type, at)));
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
