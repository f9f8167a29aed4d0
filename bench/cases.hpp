// SPDX-License-Identifier: Apache-2.0
/// \file
/// The list of all cases.
#pragma once

#include "case.hpp"

#include <vector>

namespace softfold::bench {

/// The cases of this backend, in the order in which they run (cases_cpu.cpp, cases_gpu.cpp). On the
/// cpu backend shapes and operations are timed with each of the thread counts, element types,
/// inputs and most sweeps with the first one; a device has none.
[[nodiscard]] std::vector<bench_case> all_cases(const std::vector<int>& threads);

}  // namespace softfold::bench
