// SPDX-License-Identifier: Apache-2.0
#include <gpu/attention/parts.hpp>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// Products of matrices by the matrix unit: not yet.
template <class In>
bool run_by_matrix_unit(executor& /*on*/, const core::attention_problem& /*p*/) {
  return false;
}

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu

#include <gpu/attention.inl>
