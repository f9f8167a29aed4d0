// SPDX-License-Identifier: Apache-2.0
#include "../kernels/vec_avx2.hpp"

#include "../kernels/kernels.hpp"

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

extern const kernel_table avx2_kernels = kernels_of("avx2");

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
