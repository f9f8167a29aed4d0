// SPDX-License-Identifier: Apache-2.0
/// \file
/// Standard output, every failure of which is reported.
#pragma once

#include <string_view>

namespace softfold::tool {

/// Gives standard streams that the process was started without a file that cannot be written, so
/// that no file opened later takes their place and gets what is printed.
void open_missing_streams() noexcept;

/// Writes all of `text`. Throws failure if that is not possible.
void print(std::string_view text);

/// After the last print(): some file systems report a full disk only now. Throws as print().
void close_standard_output();

}  // namespace softfold::tool
