// SPDX-License-Identifier: Apache-2.0
/// \file
/// A progress bar for people, on a terminal only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace softfold::tool {

/// Draws on standard error once the work has taken a second, and only if that is a terminal.
/// The destructor clears the line.
class progress {
 public:
  /// `label` null: never draws.
  progress(const char* label, std::int64_t total);
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  void advance(std::int64_t amount);

 private:
  using clock = std::chrono::steady_clock;

  void draw(clock::time_point now) const;

  std::string label_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  bool enabled_;
  bool drawn_ = false;
  clock::time_point start_ = clock::now();
  clock::time_point next_ = start_ + std::chrono::seconds(1);
};

}  // namespace softfold::tool
