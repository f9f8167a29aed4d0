// SPDX-License-Identifier: Apache-2.0
#include "state_files.hpp"

#include "failure.hpp"

#include <softfold/error.hpp>

#include <cstring>
#include <string>
#include <string_view>

namespace softfold::tool {

bool holds_attention(const mapped_file& file) {
  constexpr std::size_t version_at = 8;  // docs/state_format.md
  constexpr unsigned char version[] = {3, 0, 0, 0};
  return file.bytes().size() >= version_at + sizeof version &&
         std::memcmp(&file.bytes()[version_at], version, sizeof version) == 0;
}

any_states read_states(const mapped_file& file) {
  try {
    if (holds_attention(file)) {
      return attention_states::from_bytes(file.bytes());
    }
    return row_states::from_bytes(file.bytes());
  } catch (const error& e) {
    if (e.code() != errc::invalid_data) {
      throw;
    }
    const std::string_view text = e.what();  // "FUNCTION: cause"
    const std::size_t cause = text.find(": ");
    throw failure(file.path(), std::string(cause == text.npos ? text : text.substr(cause + 2)));
  }
}

}  // namespace softfold::tool
