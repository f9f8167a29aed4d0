// SPDX-License-Identifier: Apache-2.0
#include <gpu/attention/parts.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Whether there is a run_by_matrix_unit: not yet.
constexpr bool has_matrix_unit = false;

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

#include <gpu/attention.inl>
