// SPDX-License-Identifier: Apache-2.0
/// \file
/// Sizes of results that a file's header alone may make as large as it likes.
#pragma once

#include <algorithm>
#include <cstdint>

namespace softfold::tool {

/// The product, at most 2^63 - 1.
inline std::uint64_t capped_product(std::uint64_t a, std::int64_t b) {
  constexpr auto most = static_cast<std::uint64_t>(INT64_MAX);
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, static_cast<std::uint64_t>(b), &product)
             ? most
             : std::min(product, most);
}

}  // namespace softfold::tool
