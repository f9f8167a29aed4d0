// SPDX-License-Identifier: Apache-2.0
/// \file
/// Lists of parts of rows that are still to be merged.
#pragma once

#include <cstdint>

namespace softfold::gpu {
inline namespace SOFTFOLD_BACKEND {

/// The k best of each span of each row, as packed entries, from the best on; absent ones are 0.
struct span_lists {
  const std::uint64_t* entries = nullptr;
  std::int64_t k = 0;
  int spans = 0;  ///< of a row, more than 1
};

}  // namespace SOFTFOLD_BACKEND
}  // namespace softfold::gpu
