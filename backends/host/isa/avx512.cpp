// SPDX-License-Identifier: Apache-2.0
#include "../kernels/vec_avx512.hpp"

#include "../kernels/kernels.hpp"

namespace softfold::inline SOFTFOLD_BACKEND::host {

extern const kernel_table avx512_kernels = kernels_of("avx512");

}  // namespace softfold::inline SOFTFOLD_BACKEND::host
