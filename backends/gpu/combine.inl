// SPDX-License-Identifier: Apache-2.0
/// \file
/// combine: one thread for each pair of states.
#include "calls.hpp"
#include "device.hpp"
#include "launch.hpp"

#include <core/monoid.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {
namespace {

template <class T>
__global__ void __launch_bounds__(256)
    combine_states_of_rows(const max_sum<T>* more, max_sum<T>* partials, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) {
    partials[i] = core::max_sum_monoid<T>::combine(partials[i], more[i]);
  }
}

template <class T>
void launch_combine_as(const void* more, void* partials, std::int64_t count,
                       stream_handle stream) {
  launch(stream, combine_states_of_rows<T>, (count + 255) / 256, 256,
         static_cast<const max_sum<T>*>(more), static_cast<max_sum<T>*>(partials), count);
}

}  // namespace

void launch_combine(dtype type, const void* more, void* partials, std::int64_t count,
                    stream_handle stream) {
  if (type == dtype::f64) {
    launch_combine_as<double>(more, partials, count, stream);
  } else {
    launch_combine_as<float>(more, partials, count, stream);
  }
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
