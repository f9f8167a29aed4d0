// SPDX-License-Identifier: Apache-2.0
/// \file
/// The command line.
#pragma once

#include "run.hpp"

#include <string>
#include <vector>

namespace softfold::bench {

struct options {
  bool help = false;
  bool list = false;
  bool quick = false;
  std::string filter = ".";      ///< regular expression, matched against case names
  std::string contenders = ".";  ///< the same against their names; this library takes part anyway
  std::vector<std::string> plans = {};  ///< that the library is made to take, beside its own
  std::vector<int> threads = {};        ///< ascending; empty: one and all
  std::string numerics = "fast";        ///< of this library's queues
  std::string out = {};                 ///< JSON file; empty: none
  std::string logits = {};              ///< .npy file; empty: the one of the source tree
  run_settings settings = {};
};

inline constexpr const char* usage = R"(softfold_bench [options]
  --list            print the names of the cases that would run
  --quick           a few cases, few rounds
  --filter REGEX    only cases whose name has a match, e.g. '^shapes/.*/1t$'
  --contenders REGEX
                    beside this library only those whose name has a match ('^$': none)
  --plan NAME,...   the library by that plan, too, where a case has it; all: by each there is
  --threads N,...   thread counts of the cpu backend (default: 1 and all)
  --numerics fast|reproducible
                    of this library's queues (default: fast)
  --rounds N        timings of each contender in a case
  --min-time S      seconds of one timing
  --out FILE        write the results as JSON
  --logits FILE     .npy file of real logits (default: examples/data/logits_prompts.npy)
)";

/// Throws std::invalid_argument with a sentence for the user.
[[nodiscard]] options parse_options(int argc, char** argv);

}  // namespace softfold::bench
