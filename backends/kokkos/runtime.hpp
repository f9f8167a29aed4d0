// SPDX-License-Identifier: Apache-2.0
/// \file
/// Who starts and ends the Kokkos runtime.
#pragma once

namespace softfold {
inline namespace SOFTFOLD_BACKEND {
namespace runtime {

/// Starts Kokkos if nobody has; it then ends when the program exits. A runtime that the program
/// started is left to the program. Throws error(backend_failure) if Kokkos has ended.
void start();

/// Whether memory of Kokkos can still be given back.
bool running();

}  // namespace runtime
}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold
