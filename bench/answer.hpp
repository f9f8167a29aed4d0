// SPDX-License-Identifier: Apache-2.0
/// \file
/// Contenders that are timed against each other must give the same answer.
#pragma once

#include "workload.hpp"

#include <string>
#include <vector>

namespace softfold::bench {

/// Overwrites the part of the outputs that read_answer() reads.
void spoil_answer(const workload& w);

/// The operation's output for some of the rows.
[[nodiscard]] std::vector<double> read_answer(const workload& w);

/// Throws std::runtime_error that names the contender and the case unless the answers agree,
/// within what plain loops and 16-bit results need. This is no test of accuracy: tests/ has that.
void check_answer(const workload& w, const std::string& contender,
                  const std::vector<double>& answer, const std::vector<double>& expected);

}  // namespace softfold::bench
