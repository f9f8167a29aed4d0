// SPDX-License-Identifier: Apache-2.0
/// \file
/// Text of unknown origin, such as a file's name or a label, made safe to show on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace softfold::tool {

/// `text` in UTF-8 with everything escaped that a terminal or a viewer would act on instead of
/// showing it: control characters (C0, DEL and C1), the line and paragraph separators, and what
/// overrides the direction of text become \uXXXX, bytes that are not UTF-8 \xXX.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace softfold::tool
