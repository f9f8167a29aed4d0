// SPDX-License-Identifier: Apache-2.0
/// \file
/// The subcommands. Each add_* function puts one into the parser, with its options and help; it
/// runs when the parser has accepted the whole command line.
#pragma once

#include <softfold/queue.hpp>

#include <CLI/CLI.hpp>

#include <charconv>
#include <concepts>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace softfold::tool {

void add_info(CLI::App& app);
void add_softmax(CLI::App& app);
void add_logsumexp(CLI::App& app);
void add_topk(CLI::App& app);
void add_sample(CLI::App& app);
void add_attention(CLI::App& app);
void add_fold(CLI::App& app);
void add_merge(CLI::App& app);
void add_finish(CLI::App& app);

/// What the commands that work on a matrix have in common.
struct matrix_options {
  std::string input;
  double scale = 1;
  bool bf16 = false;
  int threads = 0;
  softfold::numerics numerics = softfold::numerics::fast;

  [[nodiscard]] queue_options queues() const { return {.threads = threads, .numerics = numerics}; }
};

/// "softfold 1.2.3".
std::string version_text();

void add_version(CLI::App& command);
void add_threads(CLI::App& command, int& threads);
/// --no-sync, which clears them.
void add_no_sync(CLI::App& command, std::initializer_list<bool*> syncs);
/// A check of an option's value: what is wrong with it, or nothing.
std::string finite_number(const std::string& text);
void add_input(CLI::App& command, matrix_options& options);
void add_numeric_options(CLI::App& command, matrix_options& options);
/// --numerics.
void add_numerics(CLI::App& command, matrix_options& options);

/// An option whose argument is a whole number from `least` to the most of its type: decimal digits,
/// with a minus before them or nothing. (CLI11 would take a number out of range as the nearest
/// one.)
template <std::integral T>
CLI::Option* add_integer(CLI::App& command, const std::string& name, T& value,
                         const std::string& description,
                         std::type_identity_t<T> least = std::numeric_limits<T>::min()) {
  const auto assign = [name, &value, least](const std::string& text) {
    T number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stop != end || number < least) {
      throw CLI::ValidationError(name, text + " is not a whole number from " +
                                           std::to_string(least) + " to " +
                                           std::to_string(std::numeric_limits<T>::max()));
    }
    value = number;
  };
  return command.add_option_function<std::string>(name, assign, description);
}

/// An option whose argument is one of a few words; `value` gets what the word stands for.
template <class T>
void add_choice(CLI::App& command, const std::string& name, T& value,
                const std::vector<std::pair<std::string, std::type_identity_t<T>>>& choices,
                const std::string& description) {
  std::string words;
  for (const auto& choice : choices) {
    words += words.empty() ? "" : "|";
    words += choice.first;
  }
  const auto assign = [name, &value, choices, words](const std::string& text) {
    for (const auto& [word, meaning] : choices) {
      if (word == text) {
        value = meaning;
        return;
      }
    }
    throw CLI::ValidationError(name, text + " is not " + words);
  };
  command.add_option_function<std::string>(name, assign, description)->type_name(words);
}

/// Makes `command` call run(options) with new Options; returns them for binding.
template <class Options>
Options& set_run(CLI::App& command, void (*run)(const Options&)) {
  const auto options = std::make_shared<Options>();
  command.callback([options, run] { run(*options); });
  return *options;
}

}  // namespace softfold::tool
