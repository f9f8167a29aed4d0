// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <softfold/config.hpp>

struct CUstream_st;

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

using stream_handle = CUstream_st*;
inline constexpr const char* backend_name = "cuda";

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
