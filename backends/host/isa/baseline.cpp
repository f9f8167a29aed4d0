// SPDX-License-Identifier: Apache-2.0
#include <backends/host/kernels/vec_portable.hpp>

#include <backends/host/kernels/kernels.hpp>

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace host {

extern const kernel_table baseline_kernels = kernels_of("baseline");

}  // namespace host
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
