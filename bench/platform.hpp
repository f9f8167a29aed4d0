// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the harness needs of a backend beside memory (buffer.hpp) and a clock (clock.hpp).
/// platform_<backend>.cpp has all three, or on a host platform_host.cpp the first two;
/// contenders/<backend>/ has what is timed, cases_*.cpp on what.
#pragma once

#include <softfold/queue.hpp>

#include <nlohmann/json_fwd.hpp>

namespace softfold::bench {

/// A queue on which calls are timed.
[[nodiscard]] queue make_queue(int threads);

/// Properties of the device that device_info does not have, for the results.
[[nodiscard]] nlohmann::ordered_json describe_device();

}  // namespace softfold::bench
