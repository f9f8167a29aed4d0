// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <softfold/config.hpp>

struct ihipStream_t;

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

using stream_handle = ihipStream_t*;
inline constexpr const char* backend_name = "hip";

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
