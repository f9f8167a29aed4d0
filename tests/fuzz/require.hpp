// SPDX-License-Identifier: Apache-2.0
// What a fuzz target claims: a false claim stops it, and the input is kept.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace softfold::fuzz {

inline void require(bool claim, const std::string& what) {
  if (!claim) {
    std::fprintf(stderr, "not so: %s\n", what.c_str());
    std::abort();
  }
}

/// A verdict of the conformance suite: empty if all is well.
inline void require_empty(const std::string& verdict, const std::string& what) {
  require(verdict.empty(), what + ": " + verdict);
}

}  // namespace softfold::fuzz
