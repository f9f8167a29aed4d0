// SPDX-License-Identifier: Apache-2.0
#include <backends/host/kernels/packets_avx512.hpp>

#include <backends/host/kernels/kernels.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

extern const kernel_table avx512_kernels = kernels_of("avx512");

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
