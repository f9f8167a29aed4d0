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
  std::vector<column_range> ranges;
  bool has_sinks;
};

/// What the states of all files have as those of the first.
struct common {
  std::vector<std::pair<const char*, std::string>> properties;
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

/// What states are of, in messages, what those of the other kind are, and what files have a part
/// of.
struct words {
  const char* kind;
  const char* others;
  const char* parts;
};

template <class States>
constexpr words words_of = {"rows", "attention", "columns"};
template <>
constexpr words words_of<attention_states> = {"attention", "rows", "keys"};

seen_file seen_of(const std::string& path, const row_states& s) {
  return {path, {s.columns().begin(), s.columns().end()}, false};
}
seen_file seen_of(const std::string& path, const attention_states& s) {
  return {path, {s.keys().begin(), s.keys().end()}, s.has_sinks()};
}

common common_of(const row_states& s) {
  return {{{"type", name_of(s.type())},
           {"rows", std::to_string(s.rows())},
           {"k", std::to_string(s.k())},
           {"scale", number(s.scale())},
           {"numerics", s.numerics() == numerics::reproducible ? "reproducible" : "fast"},
           {"sampling", text_of(s.sampling())}},
          {s.samples().data, s.samples().data + s.samples().size}};
}
common common_of(const attention_states& s) {
  return {{{"type", name_of(s.type())},
           {"batches", std::to_string(s.batches())},
           {"heads", std::to_string(s.heads())},
           {"tokens", std::to_string(s.tokens())},
           {"dim", std::to_string(s.dim())}},
          {}};
}

/// Throws failure unless the states of the file `path` are of the same whole as those of the first.
void check_common(const std::string& path, const common& own, const std::string& first_path,
                  const common& first) {
  const auto same = [&](const std::string& what, const std::string& found,
                        const std::string& expected) {
    if (found != expected) {
      throw failure(path, what + " is " + found + ", that of " + first_path + " is " + expected);
    }
  };
  for (std::size_t i = 0; i < first.properties.size(); ++i) {
    same(first.properties[i].first, own.properties[i].second, first.properties[i].second);
  }
  for (std::size_t r = 0; r < first.samples.size(); ++r) {
    const std::string of_row = " of row " + std::to_string(r);
    same("seed" + of_row, std::to_string(own.samples[r].seed),
         std::to_string(first.samples[r].seed));
    same("offset" + of_row, std::to_string(own.samples[r].offset),
         std::to_string(first.samples[r].offset));
  }
}

/// Throws failure if two files have a part of the whole.
void check_disjoint(const seen_file& own, const seen_file& other, const char* parts) {
  for (const column_range& theirs : other.ranges) {
    for (const column_range& mine : own.ranges) {
      const std::int64_t begin = std::max(mine.begin, theirs.begin);
      const std::int64_t end = std::min(mine.end, theirs.end);
      if (begin < end) {
        throw failure(own.path, parts + (" " + std::to_string(begin)) + " to " +
                                    std::to_string(end - 1) + " are also in " + other.path);
      }
    }
  }
  if (own.has_sinks && other.has_sinks) {
    throw failure(own.path, "the sinks are also in " + other.path);
  }
}

template <class States>
void merge(const merge_command& options) {
  queue q({.threads = options.threads});
  state_tree<States> tree(q);
  std::vector<seen_file> seen;
  std::optional<common> first;
  for (const std::string& path : options.inputs) {
    any_states read = read_states(mapped_file(path));
    auto* const states = std::get_if<States>(&read);
    if (states == nullptr) {
      throw failure(path, std::string("has states of ") + words_of<States>.others + ", " +
                              options.inputs[0] + " those of " + words_of<States>.kind);
    }
    common own = common_of(*states);
    if (!first) {
      first = std::move(own);
    } else {
      check_common(path, own, seen[0].path, *first);
    }
    seen_file added = seen_of(path, *states);
    for (const seen_file& other : seen) {
      check_disjoint(added, other, words_of<States>.parts);
    }
    seen.push_back(std::move(added));
    tree.add(std::move(*states));
  }
  const States all = tree.finish();
  atomic_output output(options.output, all.byte_count());
  write_states(output, all);
}

void run(const merge_command& options) {
  const bool of_attention = holds_attention(mapped_file(options.inputs[0]));
  of_attention ? merge<attention_states>(options) : merge<row_states>(options);
}

}  // namespace

void add_merge(CLI::App& app) {
  CLI::App& command = *app.add_subcommand(
      "merge",
      "Make one file of states of several, of other columns of the same rows or other keys of the "
      "same queries");
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
