// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "failure.hpp"
#include "state_files.hpp"
#include "state_tree.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

namespace softfold::tool {
namespace {

struct merge_command {
  std::vector<std::string> inputs;
  output_target output;
  int threads = 0;
};

/// What is remembered of a file, to say which two do not go together.
struct seen_file {
  std::string path;
  std::vector<column_range> columns;
};

/// What the states of all files have as those of the first.
struct common {
  explicit common(const row_states& states)
      : type(states.type()),
        rows(states.rows()),
        k(states.k()),
        scale(states.scale()),
        sampling(states.sampling()),
        samples(states.samples().data, states.samples().data + states.samples().size) {}

  dtype type;
  std::int64_t rows;
  std::int64_t k;
  double scale;
  std::optional<row_sampling> sampling;
  std::vector<sample_state> samples;  ///< for each row's seed and offset
};

std::string number(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

/// Without the seed and offset, which each row has.
std::string text_of(const std::optional<row_sampling>& s) {
  return !s ? "none"
            : "temperature " + number(s->temperature) + ", top_k " + std::to_string(s->top_k) +
                  ", top_p " + number(s->top_p) + ", min_p " + number(s->min_p) + ", draw " +
                  std::to_string(s->draw);
}

/// Throws failure unless `states`, of the file `path`, are of other columns of the same rows.
void check_goes_with(const std::vector<seen_file>& seen, const common& first,
                     const std::string& path, const row_states& states) {
  const auto same = [&](const std::string& what, const std::string& found,
                        const std::string& expected) {
    if (found != expected) {
      throw failure(path, what + " is " + found + ", that of " + seen[0].path + " is " + expected);
    }
  };
  same("type", name_of(states.type()), name_of(first.type));
  same("rows", std::to_string(states.rows()), std::to_string(first.rows));
  same("k", std::to_string(states.k()), std::to_string(first.k));
  same("scale", number(states.scale()), number(first.scale));
  same("sampling", text_of(states.sampling()), text_of(first.sampling));
  for (std::size_t r = 0; r < first.samples.size(); ++r) {
    const sample_state& own = states.samples().data[r];
    const std::string of_row = " of row " + std::to_string(r);
    same("seed" + of_row, std::to_string(own.seed), std::to_string(first.samples[r].seed));
    same("offset" + of_row, std::to_string(own.offset), std::to_string(first.samples[r].offset));
  }
  for (const seen_file& other : seen) {
    for (const column_range& theirs : other.columns) {
      for (const column_range& own : states.columns()) {
        const std::int64_t begin = std::max(own.begin, theirs.begin);
        const std::int64_t end = std::min(own.end, theirs.end);
        if (begin < end) {
          throw failure(path, "columns " + std::to_string(begin) + " to " +
                                  std::to_string(end - 1) + " are also in " + other.path);
        }
      }
    }
  }
}

void run(const merge_command& options) {
  queue q({.threads = options.threads});
  state_tree tree(q);
  std::vector<seen_file> seen;
  std::optional<common> first;
  for (const std::string& path : options.inputs) {
    row_states states = read_states(mapped_file(path));
    if (!first) {
      first.emplace(states);
    }
    check_goes_with(seen, *first, path, states);
    seen.push_back({path, {states.columns().begin(), states.columns().end()}});
    tree.add(std::move(states));
  }
  const row_states all = tree.finish();
  atomic_output output(options.output, all.byte_count());
  write_states(output, all);
}

}  // namespace

void add_merge(CLI::App& app) {
  CLI::App& command = *app.add_subcommand(
      "merge", "Make one file of states of several, of other columns of the same rows");
  merge_command& options = set_run(command, run);
  command.add_option("STATE", options.inputs, "Files of states, in any order")
      ->type_name("")
      ->required();
  command.add_option("-o,--output", options.output.path, "File of states")
      ->type_name("STATE")
      ->required();
  add_no_sync(command, {&options.output.sync});
  add_threads(command, options.threads);
  add_version(command);
}

}  // namespace softfold::tool
