// SPDX-License-Identifier: Apache-2.0
/// \file
/// States in files.
#pragma once

#include "atomic_output.hpp"
#include "mapped_file.hpp"

#include <softfold/row_states.hpp>

namespace softfold::tool {

/// The states in a file. Throws failure if it does not hold any.
[[nodiscard]] row_states read_states(const mapped_file& file);

/// Writes states to a file, which may already be open, and puts it in place.
void write_states(atomic_output& file, const row_states& states);

}  // namespace softfold::tool
