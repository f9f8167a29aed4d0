// SPDX-License-Identifier: Apache-2.0
#include "bounds.hpp"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

namespace softfold::test {

namespace {

/// Prints when the program ends.
struct margins {
  std::map<std::pair<std::string, dtype>, double> largest;
  ~margins() {
    if (std::getenv("SOFTFOLD_TEST_MARGINS") == nullptr) {
      return;
    }
    for (const auto& [key, fraction] : largest) {
      std::printf("largest error of %s in %s arithmetic: %.3f of the bound\n", key.first.c_str(),
                  name_of(key.second), fraction);
    }
  }
};

}  // namespace

void record_margin(const char* quantity, dtype arithmetic, double fraction) {
  static margins all;
  // One look-up for the many that follow each other with the same key.
  static thread_local const char* last_quantity = nullptr;
  static thread_local dtype last_type = dtype::i32;
  static thread_local double* last = nullptr;
  if (last == nullptr || last_quantity != quantity || last_type != arithmetic) {
    last = &all.largest[{quantity, arithmetic}];
    last_quantity = quantity;
    last_type = arithmetic;
  }
  if (fraction > *last) {
    *last = fraction;
  }
}

}  // namespace softfold::test
