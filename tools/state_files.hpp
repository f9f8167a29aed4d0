// SPDX-License-Identifier: Apache-2.0
/// \file
/// States in files.
#pragma once

#include "mapped_file.hpp"

#include <softfold/row_states.hpp>

#include <string>

namespace softfold::tool {

/// The states in a file. Throws failure if it does not hold any.
[[nodiscard]] row_states read_states(const mapped_file& file);

/// Writes a file of states, whole or not at all. It may not be `input`.
void write_states(const std::string& path, const row_states& states, const mapped_file& input);

}  // namespace softfold::tool
