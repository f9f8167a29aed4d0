// SPDX-License-Identifier: Apache-2.0
/// \file
/// Plans by name: what tests and the benchmark make a queue take, where a problem's shape has it.
#pragma once

#include <softfold/error.hpp>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

namespace softfold::core {

/// The enumerator of that name: `names` has all in their order. Throws error(invalid_argument),
/// which says where the name is from.
template <class Name, std::size_t count>
Name named(std::string_view name, const char* const (&names)[count], const char* from) {
  std::string known;
  for (std::size_t i = 0; i < count; ++i) {
    if (name == names[i]) {
      return static_cast<Name>(i);
    }
    known += (known.empty() ? "" : ", ") + std::string(names[i]);
  }
  throw error(errc::invalid_argument, "queue: " + std::string(from) + " is " + std::string(name) +
                                          ", expected one of " + known);
}

/// A backend's plan; the first of the names is empty, for no plan in particular.
template <class Name, std::size_t count>
Name plan_named(std::string_view name, const char* const (&names)[count],
                const char* from = "the plan") {
  return named<Name>(name, names, from);
}

/// The one that the environment names.
template <class Name, std::size_t count>
Name plan_of_environment(const char* const (&names)[count]) {
  const char* const name = std::getenv("SOFTFOLD_PLAN");
  return name == nullptr ? Name{} : plan_named<Name>(name, names, "SOFTFOLD_PLAN");
}

/// Whether a plan in words has that name: last_plan() of core/run.hpp.
inline bool has_plan_name(const std::string& plan, std::string_view name) {
  return (", " + plan + ",").find(", " + std::string(name) + ",") != std::string::npos;
}

}  // namespace softfold::core
