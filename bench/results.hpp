// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a run leaves behind: a line for each case, and a JSON file that bench/report.py reads.
#pragma once

#include "contender.hpp"
#include "options.hpp"
#include "run.hpp"

#include <nlohmann/json_fwd.hpp>

#include <iosfwd>
#include <string>
#include <vector>

namespace softfold::bench {

/// Titles of the columns of print_line().
void print_titles(std::ostream& out);

/// The case, this library's rate and time, and its ratios to the standard peer, the quickest peer
/// and the ceiling.
void print_line(std::ostream& out, const case_result& result);

/// `machine` is describe_machine()'s. Throws std::runtime_error if the file cannot be written.
void write_json(const std::string& path, const nlohmann::ordered_json& machine,
                const std::vector<contender>& contenders, const options& settings,
                const std::vector<case_result>& results);

}  // namespace softfold::bench
