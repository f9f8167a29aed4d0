// SPDX-License-Identifier: Apache-2.0
#include "cleanup.hpp"
#include "commands.hpp"
#include "failure.hpp"
#include "printable.hpp"
#include "standard_output.hpp"

#include <softfold/error.hpp>

#include <cstdio>
#include <new>
#include <sstream>
#include <string>

namespace {

constexpr int bad_input = 2;
constexpr int internal_error = 1;

/// Prints one line, whatever a file name or a message contains.
int report(const std::string& message, int code) {
  std::fprintf(stderr, "softfold: %s\n", softfold::tool::printable(message).c_str());
  return code;
}

/// An empty word would be read as 0, or as an option that is not there.
void refuse_empty_values(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_items_expected_max() > 0) {
      option->transform(CLI::Validator(
          [](const std::string& value) {
            return value.empty() ? std::string("the value is empty") : std::string();
          },
          ""));
    }
  }
}

int run(int argc, char** argv) {
  using namespace softfold::tool;
  CLI::App app(
      "Softmax, logsumexp, top-k and sampling of the rows of NumPy files of any size; attention.",
      "softfold");
  app.require_subcommand(0, 1);
  add_version(app);
  add_info(app);
  add_softmax(app);
  add_logsumexp(app);
  add_topk(app);
  add_sample(app);
  add_attention(app);
  add_fold(app);
  add_merge(app);
  add_finish(app);
  for (CLI::App* command : app.get_subcommands({})) {
    refuse_empty_values(*command);
  }
  app.footer("See 'softfold COMMAND --help' for the options of a command.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    std::ostringstream text;
    app.exit(request, text, text);
    print(text.str());
    close_standard_output();
    return 0;
  } catch (const CLI::Error& error) {
    const auto commands = app.get_subcommands();
    const std::string command = commands.empty() ? "" : " " + commands.front()->get_name();
    return report(std::string(error.what()) + " (see softfold" + command + " --help)", bad_input);
  }
  if (app.get_subcommands().empty()) {
    return report("a command is required (see softfold --help)", bad_input);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  softfold::tool::open_missing_streams();
  softfold::tool::install_signal_handlers();
  try {
    return run(argc, argv);
  } catch (const softfold::tool::failure& error) {
    return report(error.what(), bad_input);
  } catch (const softfold::error& error) {
    const bool argument = error.code() == softfold::errc::invalid_argument ||
                          error.code() == softfold::errc::unsupported_type;
    return report(error.what(), argument ? bad_input : internal_error);
  } catch (const std::bad_alloc&) {
    return report("out of memory", internal_error);
  } catch (const std::exception& error) {
    return report(error.what(), internal_error);
  }
}
