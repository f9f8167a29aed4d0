// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a result was measured on.
#pragma once

#include <softfold/queue.hpp>

#include <nlohmann/json_fwd.hpp>

namespace softfold::bench {

/// Processor, caches, memory, system, compiler, versions, date and load, without a name that
/// would tell whose machine it is.
[[nodiscard]] nlohmann::ordered_json describe_machine(const device_info& device);

}  // namespace softfold::bench
