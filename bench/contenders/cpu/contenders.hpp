// SPDX-License-Identifier: Apache-2.0
/// \file
/// The contenders of the cpu backend.
#pragma once

#include "contender.hpp"

namespace softfold::bench {

[[nodiscard]] contender memcpy_contender();
[[nodiscard]] contender copy_nontemporal_contender();
[[nodiscard]] contender one_read_contender();

[[nodiscard]] contender onednn_contender();
[[nodiscard]] contender onednn_partial_sort_contender();
[[nodiscard]] contender xnnpack_contender();
[[nodiscard]] contender partial_sort_contender();
[[nodiscard]] contender seed_safe_contender();
[[nodiscard]] contender seed_online_contender();

}  // namespace softfold::bench
