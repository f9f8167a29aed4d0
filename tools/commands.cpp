// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

#include <softfold/version.hpp>

#include <cmath>

namespace softfold::tool {

std::string version_text() {
  return "softfold " + std::to_string(SOFTFOLD_VERSION_MAJOR) + "." +
         std::to_string(SOFTFOLD_VERSION_MINOR) + "." + std::to_string(SOFTFOLD_VERSION_PATCH);
}

void add_version(CLI::App& command) {
  command.set_version_flag("--version", version_text(), "Print the version and exit");
}

void add_threads(CLI::App& command, int& threads) {
  add_integer(command, "--threads", threads, "Threads to use; 0 (default): all available", 0)
      ->type_name("N");
}

void add_no_sync(CLI::App& command, std::initializer_list<bool*> syncs) {
  command.add_flag_callback(
      "--no-sync",
      [all = std::vector(syncs)] {
        for (bool* const sync : all) {
          *sync = false;
        }
      },
      "Do not wait until the result is on the disk: faster, but a power failure may lose it");
}

std::string finite_number(const std::string& text) {
  double value = 0;
  return CLI::detail::lexical_cast(text, value) && std::isfinite(value)
             ? std::string()
             : text + " is not a finite number";
}

void add_input(CLI::App& command, matrix_options& options) {
  command
      .add_option("IN.npy", options.input,
                  "NumPy file of float16, float32 or float64; the last axis is the row")
      ->type_name("")
      ->required();
}

void add_numeric_options(CLI::App& command, matrix_options& options) {
  command.add_option("--scale", options.scale, "Multiply every element by S, 1/temperature")
      ->type_name("S")
      ->check(finite_number);
  command.add_flag("--bf16", options.bf16,
                   "Read uint16 elements as bfloat16, and write bfloat16 as uint16");
  add_threads(command, options.threads);
  add_version(command);
}

void add_numerics(CLI::App& command, matrix_options& options) {
  add_choice(command, "--numerics", options.numerics,
             {{"fast", numerics::fast}, {"reproducible", numerics::reproducible}},
             "Reproducible: the same bits on every backend and machine");
}

}  // namespace softfold::tool
