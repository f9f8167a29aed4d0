// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which numerics a queue has.
#pragma once

#include <core/plan_names.hpp>

#include <softfold/error.hpp>
#include <softfold/queue.hpp>

#include <cstdlib>
#include <string>

namespace softfold::core {

inline constexpr const char* numerics_names[] = {"fast", "reproducible"};

/// `argument`: of which function, and its name.
inline void check_numerics(const char* argument, numerics asked) {
  if (asked != numerics::fast && asked != numerics::reproducible) {
    throw error(errc::invalid_argument, std::string(argument) + " is " +
                                            std::to_string(static_cast<int>(asked)) +
                                            ", expected numerics::fast or numerics::reproducible");
  }
}

/// Those asked for, or reproducible ones where the environment asks for them.
inline numerics numerics_of(numerics asked) {
  check_numerics("queue: options.numerics", asked);
  const char* const name = std::getenv("SOFTFOLD_NUMERICS");
  if (name == nullptr) {
    return asked;
  }
  const auto everywhere = named<numerics>(name, numerics_names, "SOFTFOLD_NUMERICS");
  return everywhere == numerics::reproducible ? everywhere : asked;
}

}  // namespace softfold::core
