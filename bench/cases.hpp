// SPDX-License-Identifier: Apache-2.0
/// \file
/// The list of all cases.
#pragma once

#include "case.hpp"

#include <vector>

namespace softfold::bench {

/// The cases, in the order in which they run. Shapes and operations are timed with each of the
/// thread counts, element types, inputs and most sweeps with the first one.
[[nodiscard]] std::vector<bench_case> all_cases(const std::vector<int>& threads);

}  // namespace softfold::bench
