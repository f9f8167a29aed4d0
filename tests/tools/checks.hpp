// SPDX-License-Identifier: Apache-2.0
/// \file
/// What tests of several commands check of a run.
#pragma once

#include "support.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

namespace softfold::test {

inline std::string run_well(const work_directory& directory,
                            const std::vector<std::string>& arguments) {
  const outcome result = directory.run(arguments);
  INFO("command: " << arguments[0]);
  CHECK(result.err == "");
  REQUIRE(result.exit_code == 0);
  return result.out;
}

/// The command must refuse in one line that starts with the file and has the cause, and leave
/// nothing behind.
inline void refuses(const work_directory& directory, const std::vector<std::string>& arguments,
                    const std::string& file, const std::string& cause) {
  const std::set<std::string> before = directory.names();
  const outcome result = directory.run(arguments);
  INFO("standard error: " << result.err);
  CHECK(result.exit_code == 2);
  CHECK(result.out == "");
  CHECK(result.err.starts_with("softfold: " + file));
  CHECK(result.err.find(cause) != std::string::npos);
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  CHECK(directory.names() == before);
}

inline void check_near(const array& found, const array& expected, double bound) {
  CHECK(found.type == expected.type);
  REQUIRE(found.values.size() == expected.values.size());
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < found.values.size(); ++i) {
    const double exact = expected.values[i];
    wrong += !(found.values[i] == exact ||  // also infinities
               std::fabs(found.values[i] - exact) <= bound * (std::fabs(exact) + 1));
  }
  CHECK(wrong == 0);
}

}  // namespace softfold::test
