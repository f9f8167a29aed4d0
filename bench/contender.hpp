// SPDX-License-Identifier: Apache-2.0
/// \file
/// What is timed side by side: this library, what it is compared with, and the ceilings that the
/// machine sets.
#pragma once

#include "workload.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace softfold::bench {

/// One call of the operation.
using work = std::function<void()>;

enum class role : std::uint8_t {
  subject,  ///< this library
  plan,     ///< this library by a plan that it was made to take
  peer,     ///< does the same job
  ceiling,  ///< moves as many bytes and does nothing else
};

struct contender {
  std::string name;
  bench::role role = role::peer;
  std::string version = {};
  /// All that need not be repeated for a call. Empty work: the contender has no such operation,
  /// element type or machine. No function: the contender is not part of this build.
  std::function<work(const workload&)> prepare = {};
  std::string absent = {};  ///< what to install, if it is not part of this build
};

/// Every contender of this backend, this library first: contenders/<backend>/list.cpp.
[[nodiscard]] std::vector<contender> all_contenders();

[[nodiscard]] contender softfold_contender();

/// This library by the plan of that name, or by each that it has, which is one contender each; of a
/// case that has no such plan it takes no part. Throws error(invalid_argument) for another name.
[[nodiscard]] std::vector<contender> plan_contenders(const std::string& name);
inline constexpr const char* all_plans = "all";

/// The peer that most users would take, and the ceilings of which the quickest counts.
[[nodiscard]] std::string standard_peer(const bench_case& c);
[[nodiscard]] std::vector<std::string> ceilings(const bench_case& c);

[[nodiscard]] constexpr const char* name_of(role r) noexcept {
  switch (r) {
    case role::subject:
      return "subject";
    case role::plan:
      return "plan";
    case role::peer:
      return "peer";
    case role::ceiling:
      return "ceiling";
  }
  return "unknown";
}

}  // namespace softfold::bench
