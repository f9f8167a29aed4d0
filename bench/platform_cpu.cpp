// SPDX-License-Identifier: Apache-2.0
#include "platform.hpp"

#include <nlohmann/json.hpp>

namespace softfold::bench {

nlohmann::ordered_json describe_device() { return nlohmann::ordered_json::object(); }

}  // namespace softfold::bench
