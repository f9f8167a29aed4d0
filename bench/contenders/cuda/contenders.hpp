// SPDX-License-Identifier: Apache-2.0
/// \file
/// The contenders of the cuda backend. All of them work on device_stream().
#pragma once

#include "contender.hpp"

namespace softfold::bench {

[[nodiscard]] contender memcpy_contender();
[[nodiscard]] contender copy_kernel_contender();
[[nodiscard]] contender one_read_contender();

[[nodiscard]] contender cudnn_contender();
[[nodiscard]] contender cub_contender();

[[nodiscard]] contender paper_naive_contender();
[[nodiscard]] contender paper_safe_contender();
[[nodiscard]] contender paper_online_contender();
[[nodiscard]] contender paper_safe_unfused_contender();
[[nodiscard]] contender paper_safe_fused_contender();
[[nodiscard]] contender paper_online_fused_contender();

}  // namespace softfold::bench
