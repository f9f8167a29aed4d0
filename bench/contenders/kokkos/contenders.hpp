// SPDX-License-Identifier: Apache-2.0
/// \file
/// The contenders of the kokkos backend. Those of a host are also some of the cpu backend's.
#pragma once

#include "contender.hpp"

namespace softfold::bench {

/// The cpu backend, linked beside this one.
[[nodiscard]] contender softfold_cpu_contender();
/// This backend on Kokkos::Serial: one thread, whatever the case says.
[[nodiscard]] contender softfold_serial_contender();

[[nodiscard]] contender deep_copy_contender();
[[nodiscard]] contender copy_kernel_contender();

}  // namespace softfold::bench
