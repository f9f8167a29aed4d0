// SPDX-License-Identifier: Apache-2.0
/// \file
/// States in files.
#pragma once

#include "atomic_output.hpp"
#include "mapped_file.hpp"

#include <softfold/attention_states.hpp>
#include <softfold/row_states.hpp>

#include <variant>

namespace softfold::tool {

/// Whether a file's states, if it holds any, are those of attention, not of rows.
[[nodiscard]] bool holds_attention(const mapped_file& file);

using any_states = std::variant<row_states, attention_states>;

/// The states in a file. Throws failure if it does not hold any.
[[nodiscard]] any_states read_states(const mapped_file& file);

/// Writes states to a file, which may already be open, and puts it in place.
template <class States>
void write_states(atomic_output& file, const States& states) {
  file.write(states.to_bytes());
  atomic_output::commit({&file});
}

}  // namespace softfold::tool
