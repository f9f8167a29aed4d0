// SPDX-License-Identifier: Apache-2.0
#include "state_files.hpp"

#include "failure.hpp"

#include <softfold/error.hpp>

#include <string>
#include <string_view>

namespace softfold::tool {

row_states read_states(const mapped_file& file) {
  try {
    return row_states::from_bytes(file.bytes());
  } catch (const error& e) {
    if (e.code() != errc::invalid_data) {
      throw;
    }
    const std::string_view text = e.what();  // "row_states::from_bytes: cause"
    const std::size_t cause = text.find(": ");
    throw failure(file.path(), std::string(cause == text.npos ? text : text.substr(cause + 2)));
  }
}

void write_states(atomic_output& file, const row_states& states) {
  file.write(states.to_bytes());
  atomic_output::commit({&file});
}

}  // namespace softfold::tool
