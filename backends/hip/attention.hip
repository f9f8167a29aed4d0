// SPDX-License-Identifier: Apache-2.0
#include <gpu/attention/parts.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Types of which run_by_matrix_unit has kernels: not yet.
template <class>
constexpr bool has_matrix_unit = false;

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

#include <gpu/attention.inl>
